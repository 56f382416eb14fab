
-- Accounts for lent units in a call that does not read the lease record. This happens while the
-- consistency of a rule is changed to `lease` or from `lease`. The state contains the number of lent
-- units and the time at which the last of their leases ends.
local function lent()
	-- Makes the bucket at least as empty as if `taken` units had been taken from a full bucket at `since`.
	local function occupy(l, since, taken)
		local elapsed = l.at - since
		if taken == 0 or elapsed * l.limit >= math.max(EXACT, 2 * taken * l.period) then
			return
		end
		local refilled, part = muldiv(elapsed, l.limit, l.period)
		local used = taken - refilled
		if used > l.used or (used > 0 and used == l.used and part < l.part) then
			l.since, l.taken, l.used, l.part, l.changed = since, taken, used, part, true
		end
	end

	-- A bucket reserves room for lent units until the end of their leases. From then on the
	-- units count as taken. In a log, lent units are entries whose stamp is the end of the lease.
	local function account_lent(l)
		-- l.ends is too late if it was computed by another master, whose clock was fast.
		l.ends = math.min(l.ends, now + TTL_MAX)
		if l.limit then
			occupy(l, math.min(l.ends, l.at), l.lent)
		end
		if l.ends + (l.limit and 0 or l.period) <= now then
			l.lent, l.noted = false, true
		elseif not l.limit then
			l.lent_entries = l.lent
		end
	end

	-- Returns the µs until a lent unit can be available again at the earliest.
	local function back_after(l)
		return l.ends > now and l.ends - now or l.ends + l.period - now
	end

	-- Returns the µs until all lent units have expired.
	local function gone_after(l, reset)
		if l.limit then
			return reset + math.max(l.ends - now, 0)
		end
		return math.max(reset, l.ends + l.period - now)
	end

	return {occupy = occupy, account_lent = account_lent, back_after = back_after, gone_after = gone_after}
end
