
-- Sliding window counter.
local function counter()
	local function estimate(l)
		l.used = l.current + muldiv(l.left, l.previous, l.period)
	end

	local function load(l, v)
		local index = math.floor(now / l.period)
		l.left = l.period - (now - index * l.period)
		l.late, l.previous, l.current = 0, 0, 0
		if v and #v == 15 then
			local of, previous, current = struct.unpack('>I7I4I4', v)
			local ahead = of - index
			local begins = (ahead - 1) * l.period + l.left
			if ahead > 0 and begins <= SKEW_US then
				l.late, l.left, index, ahead = begins, l.period, of, 0
			end
			if ahead >= 0 then
				l.previous, l.current, l.changed = previous, current, ahead > 0
			elseif ahead == -1 then
				l.previous = current
			end
		end
		l.index = index
		estimate(l)
	end

	local function add(l, n)
		n = math.min(n, COUNT_MAX - l.current)
		l.current, l.used, l.changed = l.current + n, l.used + n, true
	end

	local function reach(l, count, m)
		if count < m then
			return l.period
		end
		local q, rest = muldiv(l.period, m, count)
		return rest == 0 and q - 1 or q
	end

	local function wait_for(l, room)
		if l.current > room then
			return l.late + l.left + l.period - reach(l, l.current, room + 1)
		end
		local reached = reach(l, l.previous, room - l.current + 1)
		return l.left > reached and l.late + l.left - reached or 0
	end

	-- Returns how many windows ago the units of a give-back or report were admitted: 0 for the
	-- current window, 1 for the window before. The callers ignore units of older windows.
	local function age(l)
		return l.index - math.floor(l.decided / l.period)
	end

	local function give(l, n)
		local here = (not l.decided or age(l) == 0) and math.min(n, l.current) or 0
		local before = (not l.decided or age(l) == 1) and math.min(n - here, l.previous) or 0
		if here + before > 0 then
			l.current, l.previous, l.changed = l.current - here, l.previous - before, true
			estimate(l)
		end
	end

	local function report(l, n)
		if age(l) == 0 then
			add(l, n)
		elseif age(l) == 1 then
			l.previous, l.changed = math.min(l.previous + n, COUNT_MAX), true
			estimate(l)
		end
	end

	return {
		load = load,
		add = add,
		give = give,
		report = report,
		wait = function(l, ceiling, n)
			return wait_for(l, ceiling - n)
		end,
		reset = function(l)
			return wait_for(l, 0)
		end,
		pack = function(l)
			return struct.pack('>I7I4I4', l.index, l.previous, l.current)
		end,
	}
end
