
-- Fixed window. Usually the state is only the count, as INCR would write it, and the window is
-- derived from the time at which the key expires. In three cases the state also contains the
-- window's number (for a calendar window the second in which it begins): if windows are too short
-- to be derived from the expiry, if soft mode needs the key for longer, or if a calendar window
-- begins slightly after now, because the state was written under a faster clock. The number is
-- stored modulo WINDOWS. Two windows with the same remainder are so far apart that the key of the
-- older one has expired long before.
local function fixed()
	local WINDOWS = 900000000
	local ALONE_US = 1000000

	-- Sets l.start and l.stop to the window that contains now. A limit with calendar windows
	-- has l.after. For such a limit, chooses one of the windows in the arguments; if none of
	-- them contains now, sets l.outside.
	local function open(l)
		if not l.after then
			l.start = now - now % l.period
			l.stop = l.start + l.period
			return
		end
		if now >= l.stop then
			l.before, l.start, l.stop, l.after = l.start, l.stop, l.after, 0
		elseif now < l.start and l.before > 0 then
			l.before, l.start, l.stop, l.after = 0, l.before, l.start, l.stop
		end
		l.outside = now < l.start or now >= l.stop
	end

	local function unit(l)
		return l.after and 1000000 or l.period
	end

	local function in_full(l, start, count)
		return string.format('%d%010d', math.floor(start / unit(l)) % WINDOWS, count)
	end

	local function start_by_number(l, v)
		local ahead = (tonumber(string.sub(v, 1, -11)) or 0) - math.floor(l.start / unit(l))
		ahead = (ahead + WINDOWS / 2) % WINDOWS - WINDOWS / 2
		return l.start + ahead * unit(l)
	end

	-- Returns the start of the key's window. A key expires at the end of its window or less
	-- than ALONE_US later, so the window is derived from the time at which the key expires,
	-- which is now + ttl. The ttl was read before `now`, so this sum can be later than the real
	-- expiry, but never earlier. A sum that is too late can give a later window than the real
	-- one, but no count is lost by that. If the ttl is ALONE_US or more, or if the key does not
	-- expire, the key's window has not ended yet. So if the derived window is before the
	-- current window, returns the start of the current window.
	local function start_by_expiry(l)
		local ends, start = now + l.ttl * 1000, l.start
		if not l.after then
			start = math.floor(ends / l.period) * l.period - l.period
		elseif ends >= l.stop + ALONE_US then
			start = l.after > 0 and ends >= l.after + ALONE_US and l.after or l.stop
		elseif ends < l.stop then
			start = l.before
		end
		return start < l.start and (l.ttl == -1 or ends >= now + ALONE_US) and l.start or start
	end

	-- Returns whether the key expires with its window. A key that was written under a master
	-- with another clock may expire at another time. The key is then written again, because it
	-- would otherwise count in the next window as well.
	local function lasts(l)
		local ends = now + l.ttl * 1000
		return ends >= l.stop and ends < l.stop + ALONE_US
	end

	local function load(l, v)
		open(l)
		if not v or l.outside then
			return
		end
		local alone = l.ttl and not string.find(v, '%D')
		local start = alone and start_by_expiry(l) or start_by_number(l, v)
		local count = tonumber(string.sub(v, -10)) or 0
		if late(start) > 0 then
			l.late = late(start)
			l.start, l.stop = start, l.stop + (start - l.start)
			l.odd = l.after
		end
		if start >= l.start then
			local stands = alone and start == l.start and lasts(l)
			l.used = count
			l.changed = start > l.start or (alone and not stands)
			l.stood = stands and count
		end
		if l.soft then
			l.value = in_full(l, start, count)
		end
	end

	local function add(l, n)
		l.used, l.changed = math.min(l.used + n, COUNT_MAX), true
	end

	local function rest(l)
		return l.stop - now
	end

	local function same(l)
		return not l.decided or (l.decided >= l.start and l.decided < l.stop)
	end

	return {
		load = load,
		add = add,
		give = function(l, n)
			if l.used > 0 and same(l) then
				l.used, l.changed = math.max(l.used - n, 0), true
			end
		end,
		wait = function(l, ceiling, n)
			return l.used + n > ceiling and rest(l) or 0
		end,
		reset = function(l)
			return l.used > 0 and rest(l) or 0
		end,
		report = function(l, n)
			if same(l) then
				add(l, n)
			end
		end,
		life = rest,
		pack = function(l, soft)
			if soft ~= '' or l.odd or (not l.after and l.period < ALONE_US) then
				return in_full(l, l.start, l.used)
			elseif l.stood then
				redis.call('INCRBY', l.key, l.used - l.stood)
				return nil
			end
			return string.format('%d', l.used)
		end,
	}
end
