
-- What is out on lease, for a call that cannot see the record of it: of a rule that was not leased
-- before, or is no more. The counter says how many units these are, and when the last of them end.
local function lent()
	-- The bucket is as if so many had been taken from a full one at `since`, unless more is missing.
	local function occupy(l, since, taken)
		local elapsed = l.at - since
		if taken == 0 or elapsed * l.limit >= math.max(EXACT, 2 * taken * l.period) then
			return
		end
		local drained, part = muldiv(elapsed, l.limit, l.period)
		local used = taken - drained
		if used > l.used or (used > 0 and used == l.used and part < l.part) then
			l.since, l.taken, l.used, l.part, l.changed = since, taken, used, part, true
		end
	end

	-- A bucket keeps room for them, from their end on it holds them. Of a log they are entries with the
	-- stamp of their end.
	local function heed(l)
		l.ends = math.min(l.ends, now + TTL_MAX) -- no master's clock but this one's
		if l.limit then
			occupy(l, math.min(l.ends, l.at), l.lent)
		end
		if l.ends + (l.limit and 0 or l.period) <= now then
			l.lent, l.noted = false, true
		elseif not l.limit then
			l.kept = l.lent
		end
	end

	-- The soonest that any can be there again.
	local function back_after(l)
		return l.ends > now and l.ends - now or l.ends + l.period - now
	end

	-- When all of them are gone.
	local function gone_after(l, reset)
		if l.limit then
			return reset + math.max(l.ends - now, 0)
		end
		return math.max(reset, l.ends + l.period - now)
	end

	return {occupy = occupy, heed = heed, back_after = back_after, gone_after = gone_after}
end
