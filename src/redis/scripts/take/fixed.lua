
-- Fixed window. The window is told by its number, or by the second at which a calendar's begins,
-- modulo so much that it fits: one from before has expired long before it could be mistaken.
local function fixed()
	local WINDOWS = 900000000

	-- Which of the windows given holds now.
	local function open(l)
		if not l.start then
			l.start = now - now % l.period
			l.stop = l.start + l.period
			return
		end
		if now >= l.stop then
			l.start, l.stop = l.stop, l.after
		elseif now < l.start and l.before > 0 then
			l.start, l.stop = l.before, l.start
		end
		l.astray = now < l.start or now >= l.stop
	end

	local function load(l, v)
		open(l)
		l.late, l.used = 0, 0
		l.unit = l.after and 1000000 or l.period
		if not v or l.astray then
			return
		end
		local ahead = (tonumber(string.sub(v, 1, -11)) or 0) - math.floor(l.start / l.unit)
		ahead = (ahead + WINDOWS / 2) % WINDOWS - WINDOWS / 2
		local start = l.start + ahead * l.unit
		if late(start) > 0 then
			l.start, l.stop = start, l.stop + (start - l.start)
		end
		if start >= l.start then
			l.used = tonumber(string.sub(v, -10)) or 0
			l.changed = start > l.start
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
		pack = function(l)
			return string.format('%d%010d', math.floor(l.start / l.unit) % WINDOWS, l.used)
		end,
	}
end
