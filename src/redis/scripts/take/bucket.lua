
-- Token bucket and leaky bucket. The backlog is the number of tokens missing from a full bucket:
-- `used` - `part` / `period`, with part < period. So `used` is the backlog, rounded up.
local function bucket()
	local EPOCH, DIGITS, MOST = 1577836800000000, 1000000000000000, 9222

	local function parse(v)
		if #v == 12 then
			return struct.unpack('>I7I5', v)
		end
		return (tonumber(string.sub(v, -15)) or 0) + EPOCH, tonumber(string.sub(v, 1, -16)) or 0
	end

	local function carry(l, taken)
		l.since, l.taken, l.changed = l.at, taken, true
	end

	local function load(l, v)
		local since, taken = 0, 0
		if v and l.limit > 0 then
			since, taken = parse(v)
		end
		l.late = late(since)
		l.at, l.since, l.taken, l.used, l.part = now + l.late, since, taken, 0, 0
		if since > l.at then
			carry(l, math.min(taken, l.ceiling))
		end
		local elapsed = l.at - l.since
		-- If this comparison is false, the bucket is certainly full again. Products
		-- above EXACT (2^53) are rounded, but the factor 2 is a sufficient margin.
		if elapsed * l.limit < math.max(EXACT, 2 * l.taken * l.period) then
			local refilled, part = muldiv(elapsed, l.limit, l.period)
			if l.taken > refilled then
				l.used, l.part = l.taken - refilled, part
				return
			end
		end
		l.since, l.taken = l.at, 0
	end

	local function add(l, n)
		local elapsed = l.at - l.since
		l.taken, l.used, l.changed = l.taken + n, l.used + n, true
		if l.taken >= l.limit and elapsed >= l.period then
			local both = math.min(math.floor(l.taken / l.limit), math.floor(elapsed / l.period))
			l.since, l.taken = l.since + both * l.period, l.taken - both * l.limit
		end
	end

	-- Returns the µs until the backlog has shrunk by `tokens`; 0 if the backlog is empty.
	local function leak_time(l, tokens)
		if tokens < 1 or l.used == 0 then
			return 0
		end
		local q, m = muldiv(l.period, tokens, l.limit)
		return q + math.ceil((m - l.part) / l.limit)
	end

	local function take_away(l, n)
		if l.used <= n then
			carry(l, 0)
			l.used, l.part = 0, 0
		elseif n > 0 then
			l.taken, l.used, l.changed = l.taken - n, l.used - n, true
		end
	end

	-- Gives back the position of a request in the queue, but only if it is the last position.
	-- `decided` is the time at which the request leaves the queue. After that time the position
	-- counts as used and is not given back.
	local function leave(l, n)
		local due = l.used < n or (l.used == n and l.part > 0)
		if not due and leak_time(l, l.used - n) == l.decided - l.at then
			take_away(l, n)
		end
	end

	-- The key KEY:g counts the tokens that were given back to the bucket. Its fields are the time at
	-- which the count began (7), and the count (7). It expires after a time in which a bucket without
	-- a debt is refilled twice.
	local function given(l)
		local v = redis.call('GET', l.key .. ':g')
		if v and #v == 14 then
			return struct.unpack('>I7I7', v)
		end
		return now, 0
	end

	-- Returns the number of tokens that were given back since `decided`, or more. If the count began
	-- later, an earlier count had expired. Then a bucket that gave tokens back after `decided` was
	-- refilled since, and sure() returns 0.
	local function given_since(l)
		local since, count = given(l)
		return since <= l.decided and math.max(count - l.given_then, 0) or count
	end

	-- Returns how many of n tokens can certainly be given back, as wr_token_sure() does. After the
	-- take, used_then tokens were missing. Since then, the number of missing tokens became smaller
	-- only by tokens that flowed in, and by those that were given back.
	local function sure(l, n)
		local age = now - l.decided
		if not l.used_then or l.late > 0 or age < 0 or age * l.limit >= 2 * l.used_then * l.period then
			return 0
		end
		local refilled, part = muldiv(age, l.limit, l.period)
		local missing = l.used_then - 1 - refilled - (part > 0 and 1 or 0) - given_since(l)
		return math.max(math.min(n, missing), 0)
	end

	-- Of n units, gives back the units that cannot have been refilled since `decided`, or the units
	-- that sure() returns if these are not fewer. wr_bucket_give() and wr_store_settle() do the same.
	local function give_rest(l, n)
		local age = math.max(l.at - l.decided, 0)
		local certain = sure(l, n)
		if certain > 0 and (age * l.limit >= 2 * n * l.period
			or n - certain <= muldiv(age, l.limit, l.period)) then
			take_away(l, certain)
			return
		end
		-- If the clock has stepped back since the take, the number of refilled units is
		-- unknown. So nothing is given back.
		if l.decided - l.at > SKEW_US or age * l.limit >= 2 * n * l.period then
			return
		end
		local refilled, part = muldiv(age, l.limit, l.period)
		local whole = n - refilled
		if whole <= 0 then
			return
		elseif l.used < whole or (l.used == whole and l.part >= part) then
			take_away(l, l.used)
			return
		end
		local over = math.max(l.since + age - l.at, 0)
		local periods = math.ceil(over / l.period)
		if l.since + age < periods * l.period then
			take_away(l, part > 0 and whole - 1 or whole)
			return
		end
		l.since = l.since + age - periods * l.period
		l.taken = l.taken + periods * l.limit - n
		l.used, l.part, l.changed = l.used - whole, l.part - part, true
		if l.part < 0 then
			l.used, l.part = l.used + 1, l.part + l.period
		end
	end

	local function give(l, n)
		if l.used == 0 then
			return
		elseif not l.decided then
			take_away(l, n)
		elseif l.queue then
			leave(l, n)
		else
			give_rest(l, n)
		end
	end

	return {
		load = load,
		add = add,
		give = give,
		given = given,
		wait = function(l, ceiling, n)
			local us = leak_time(l, l.used + n - ceiling)
			return us > 0 and math.min(us, SPAN_MAX_US) + l.late or 0
		end,
		reset = function(l)
			return math.min(leak_time(l, l.used), SPAN_MAX_US) + l.late
		end,
		-- Returns by how many µs the wait of a request that joins the queue now would
		-- exceed max_wait; 0 if it would not.
		beyond = function(l)
			return math.min(math.max(leak_time(l, l.used) - l.max_wait, 0), SPAN_MAX_US)
		end,
		report = function(l, n)
			n = math.min(n, l.capacity - l.used)
			if n > 0 then
				add(l, n)
			end
		end,
		pack = function(l)
			local since = l.since - EPOCH
			if l.taken <= MOST and since >= 0 and since < DIGITS then
				return string.format('%d%015d', l.taken, since)
			end
			return struct.pack('>I7I5', l.since, l.taken)
		end,
	}
end
