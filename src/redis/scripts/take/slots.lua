
-- Concurrent requests. The state is a sorted set. Each slot that was taken is a member. Its name is
-- the slot's token: the time at which the slot was taken, in µs. If two requests take slots in the
-- same µs, 1 µs is added for one of them, so that each token occurs once. The score is the time
-- from which max_hold (l.period) counts. It differs from the token only if the clock has stepped
-- back. The score of the member HOLD is the average holding time in µs, as a negative number.
local function slots()
	local HOLD, LEAST_WAIT = 'h', 1000000

	-- Returns the score of the first slot that was taken after `us`, or nil.
	local function first_after(l, us)
		local found = redis.call('ZRANGEBYSCORE', l.key, '(' .. string.format('%d', math.max(us, 0)),
			'+inf', 'WITHSCORES', 'LIMIT', 0, 1)
		return tonumber(found[2])
	end

	local function average(l)
		return -(tonumber(redis.call('ZSCORE', l.key, HOLD) or 0))
	end

	local function count(l)
		local newest = redis.call('ZRANGE', l.key, -1, -1, 'WITHSCORES')
		l.newest = tonumber(newest[2]) or 0
		l.used = redis.call('ZCOUNT', l.key,
			'(' .. string.format('%d', math.max(now - l.period, 0)), '+inf')
	end

	-- If the clock has stepped back, a slot may have a time far in the future. It gets the time
	-- of now, so that it is free after max_hold. Its token stays the same.
	local function load(l)
		count(l)
		if l.newest <= now + 2 * SKEW_US then
			return
		end
		local ahead = redis.call('ZRANGEBYSCORE', l.key,
			'(' .. string.format('%d', now + 2 * SKEW_US), '+inf')
		for _, token in ipairs(ahead) do
			redis.call('ZADD', l.key, string.format('%d', now), token)
		end
		count(l)
	end

	local function add(l)
		local us, token = now, string.format('%d', now)
		redis.call('ZREMRANGEBYSCORE', l.key, 0, string.format('%d', now - l.period))
		while redis.call('ZSCORE', l.key, token) do
			us = us + 1
			token = string.format('%d', us)
		end
		redis.call('ZADD', l.key, token, token)
		redis.call('PEXPIRE', l.key, life_ms(l.period + us - now))
		l.late, l.newest, l.used = us - now, math.max(us, l.newest), l.used + 1
	end

	-- Frees the slot whose token is l.decided. Does nothing if the slot was freed before. The
	-- average is written first: if the key became empty, it would lose its time to live.
	local function give(l)
		local token = l.decided and string.format('%d', l.decided)
		if not token or not redis.call('ZSCORE', l.key, token) then
			return
		end
		local mean, held = average(l), math.max(now - l.decided, 1)
		if mean > 0 then
			held = mean - math.floor(mean / 8) + math.floor(held / 8)
		end
		redis.call('ZADD', l.key, string.format('%d', -held), HOLD)
		redis.call('ZREM', l.key, token)
		count(l)
	end

	-- wr_slots_wait() does the same.
	local function wait_for(l, taken, hold)
		local age = math.max(now - taken, 0)
		return math.min(hold > age and hold - age or hold, math.max(l.period - age, 0))
	end

	return {
		load = load,
		add = add,
		give = give,
		sorted = true,
		-- Returns the shortest of the estimated times until a slot is given back. Two slots
		-- can have this time: the oldest of all slots, and the oldest of the slots that
		-- were taken after now - hold.
		wait = function(l)
			local hold, us = average(l), SPAN_MAX_US
			local oldest, later = first_after(l, now - l.period), first_after(l, now - hold)
			us = oldest and wait_for(l, oldest, hold) or us
			us = later and math.min(us, wait_for(l, later, hold)) or us
			return us < SPAN_MAX_US and math.max(us, LEAST_WAIT) or LEAST_WAIT
		end,
		reset = function(l)
			return l.used > 0 and math.max(l.newest + l.period - now, 0) or 0
		end,
	}
end
