
local KINDS = {bucket, bucket, fixed, counter, log, slots}
local SLOTS = 6
local made = {}

local at = 0
local function arg()
	at = at + 1
	return tonumber(ARGV[at])
end

-- Reads the optional arguments. They come in the order in which this function reads them.
local function read_more(l, flags)
	local COUNT_REJECTED, SOFT, MAX_WAIT, CALENDAR = 8, 16, 32, 64
	local DECIDED, TIMES, REPORT, RESET, OWE, CLAIM, PROOF = 128, 256, 512, 1024, 2048, 4096, 8192

	l.count_rejected = bit.band(flags, COUNT_REJECTED) > 0
	if bit.band(flags, SOFT) > 0 then
		l.ceiling, l.soft_for, l.span, l.soft = arg(), arg(), l.period, soft()
	end
	l.max_wait = bit.band(flags, MAX_WAIT) > 0 and arg()
	if bit.band(flags, CALENDAR) > 0 then
		l.before, l.start, l.stop, l.after = arg(), arg(), arg(), arg()
		l.span = l.period > 0 and l.period or l.stop - l.start
	end
	l.decided = bit.band(flags, DECIDED) > 0 and arg()
	l.times = bit.band(flags, TIMES) > 0 and arg() or 1
	l.report = bit.band(flags, REPORT) > 0 and arg()
	l.reset = bit.band(flags, RESET) > 0
	l.most = bit.band(flags, OWE) > 0 and arg()
	l.claim = bit.band(flags, CLAIM) > 0
	l.proof = bit.band(flags, PROOF) > 0
	if l.proof and l.cost < 0 then
		l.used_then, l.given_then = arg(), arg()
	end
end

-- Reads a limit into a Lua table. Almost all fields are set when the table is created, because
-- adding them later would be the main cost of reading a limit.
local function read_limit(key)
	local flags, cost, capacity, period = arg(), arg(), arg(), arg()
	local algorithm = flags % 8
	local l = {
		key = key, cost = cost, n = cost > 0 and cost or math.max(-cost, 1), times = 1, most = false,
		capacity = capacity, ceiling = capacity, period = period,
		limit = algorithm <= 2 and arg(), queue = algorithm == 2, max_wait = false,
		soft = false, decided = false, report = false, reset = false, kind = false, base = 0, lent = false, lent_entries = 0,
		-- The fields that buckets use. Other algorithms add further fields later.
		at = 0, late = 0, since = 0, taken = 0, part = 0,
		used = 0, fit = 0, delay = 0, value = '', changed = false,
	}
	if flags >= 8 then
		read_more(l, flags)
	end
	if algorithm == SLOTS then
		l.n = 1 -- a request takes one slot, whatever its cost
	end
	made[algorithm] = made[algorithm] or KINDS[algorithm]()
	l.kind = made[algorithm]
	return l
end

local function fetch(l)
	local kind, v = l.kind
	if kind.sorted then
		return
	elseif kind.peek then
		v = redis.call('GETRANGE', l.key, 0, kind.peek)
	else
		v = redis.call('GET', l.key)
	end
	if v and #v <= 10 and kind.life then
		l.ttl = redis.call('PTTL', l.key)
	end
	l.value = v or ''
end

local function load(l)
	local v = l.value
	if #v >= 12 and string.sub(v, 1, 1) == 'l' then
		l.lent, l.ends = struct.unpack('>I4I7', v, 2)
		l.base, v = 12, string.sub(v, 13)
	end
	if #v >= 15 and string.sub(v, 1, 1) == 's' then
		l.last, l.lasted = struct.unpack('>I7I7', v, 2)
		l.base, v = l.base + 15, string.sub(v, 16)
	end
	if l.soft then
		l.soft.carry(l)
	end
	l.value = v
	l.kind.load(l, v ~= '' and v)
end

local function beyond(l)
	return l.max_wait and l.kind.beyond(l) or 0
end

local function decide(l)
	local used = l.used + l.lent_entries
	if l.outside then
		return
	elseif l.cost < 0 or l.report or l.most then
		l.fit = 1
	elseif used + l.n <= l.capacity and beyond(l) == 0 then
		l.fit = math.min(l.times, math.floor((l.capacity - used) / l.n))
		l.delay = l.queue and l.kind.reset(l) or 0
	elseif l.soft and used + l.n <= l.ceiling and not l.soft.spent(l, now) then
		l.fit, l.over = 1, true
	end
end

-- Returns the µs until an empty bucket is full again, or until a full queue is empty.
local function full_after(l)
	return l.limit > 0 and math.min(muldiv(l.ceiling, l.period, l.limit) + 1, SPAN_MAX_US) or 0
end

-- Executes an operator's reset. The time of the reset is stored in a key of the same slot, the
-- counter's key followed by ":r", for as long as an earlier take could be given back.
local function wipe(l)
	local us = l.limit and full_after(l) or math.max(2 * l.period, l.stop and l.stop - l.start or 0)
	redis.call('DEL', l.key)
	redis.call('SET', l.key .. ':r', string.format('%d', now), 'PX', life_ms(us + SKEW_US))
	l.value, l.ttl = '', nil
end

-- Returns whether the take that is given back was counted before a reset. For a queue, `decided` is
-- the time at which the request of the take leaves the queue.
local function was_reset(l)
	local us = tonumber(redis.call('GET', l.key .. ':r') or 0) or 0
	return l.decided <= us + (l.queue and us > 0 and full_after(l) or 0)
end

-- Charges units that a request used beyond its reservation, even beyond the limit, until l.most
-- units are in use. wr_store_owe() does the same.
local function owe(l)
	local n, ceiling = math.min(l.n, l.most - l.used - l.lent_entries), l.ceiling
	if l.limit then
		n = l.limit > 0 and math.min(n, TAKEN_MAX - l.taken) or 0
	end
	if n > 0 then
		l.ceiling = l.most
		l.kind.add(l, n)
		l.ceiling = ceiling
	end
end

-- Gives back units, and counts the tokens of a bucket that are given back: the whole tokens, plus 1
-- for a rest. given_since() in bucket.lua explains the count.
local function give_back(l)
	local used, part = l.used, l.part
	l.kind.give(l, l.n)
	if used == 0 or not l.limit or l.queue or l.leased then
		return
	end
	local since, count = l.kind.given(l)
	count = count + used - l.used - (l.part < part and 1 or 0) + 1
	redis.call('SET', l.key .. ':g', struct.pack('>I7I7', since, math.min(count, EXACT)), 'PX',
		life_ms(math.min(2 * full_after(l), SPAN_MAX_US) + SKEW_US))
end

local function apply(l, all)
	local kind = l.kind
	if l.report then
		kind.report(l, l.n)
	elseif l.most then
		owe(l)
	elseif l.cost < 0 then
		if not (l.decided and was_reset(l)) then
			give_back(l)
		end
	elseif l.cost > 0 then
		if l.soft and (l.fit == 0 or (l.over and all)) then
			l.soft.note(l)
		end
		if all then
			kind.add(l, l.n * l.fit)
			l.took = true
		elseif l.count_rejected then
			kind.add(l, l.n)
		end
	end
end

local function retry_after(l)
	local kind = l.kind
	if l.n > l.ceiling then
		return -1
	end
	local us = l.n <= l.capacity and kind.wait(l, l.capacity, l.n)
	if not l.soft then
		local over = beyond(l)
		return math.max(us, over > 0 and over + l.late or 0)
	end
	-- In soft mode, the request fits the limit after `us` µs and the ceiling after `above` µs.
	-- It is admitted after the shorter of these times. But if the grace is over when the
	-- request fits the ceiling, the ceiling does not apply until a new grace can begin.
	local above = kind.wait(l, l.ceiling, l.n)
	if l.soft.spent(l, now + above) then
		above = math.max(above, l.soft.rearm_after(l))
	end
	return us and math.min(us, above) or above
end

-- Returns the number of units that remain. A number below 0 is a debt: units in use beyond the
-- limit. If the limit counts rejected requests, these may be refused requests, which are no debt.
local function left(l, lent_units)
	local n = l.capacity - l.used - lent_units
	if (n < 0 and (l.count_rejected or l.queue)) or beyond(l) > 0 then
		return 0
	end
	return n
end

-- Returns the number that a later give-back of this take needs as proof (bucket.lua), or -1 if nothing
-- can be proved: lent units can return to the bucket, or the units were counted with a later time.
local function given_now(l)
	local _, count = l.kind.given(l)
	return (l.lent or l.late > 0) and -1 or count
end

-- For a queue, returns the delay until the request may proceed. For other algorithms, returns the
-- time from now to the time stamp with which the units were counted; a give-back needs it. This is
-- 0, or more if the state was written under a faster clock.
local function charged_after(l)
	return l.queue and l.delay or l.late
end

-- Writes the state. If only an excess or lent units were recorded, the rest of the state stays as
-- it was read.
local function store(l, reset)
	local kind, value = l.kind, l.value
	local head = l.last and 's' .. struct.pack('>I7I7', l.last, l.lasted) or ''
	if l.lent then
		head = 'l' .. struct.pack('>I4I7', l.lent, l.ends) .. head
	end
	local ms = life_ms(kind.life and math.max(reset, kind.life(l)) or reset)
	if l.changed or kind.peek then
		value = kind.pack(l, head, ms)
	end
	if value then
		redis.call('SET', l.key, head .. value, 'PX', ms)
	end
end

-- Returns whether a report with this sequence number was already counted. If it was not, stores the
-- number.
local function was_reported(seq)
	local before = tonumber(redis.call('GET', KEYS[#KEYS]) or 0) or 0
	if before >= seq then
		return true
	end
	redis.call('SET', KEYS[#KEYS], string.format('%d', seq), 'PX', REPORT_MS)
	return false
end

local function verdict_of(l)
	return (l.fit > 0 and ADMITTED or 0) + (l.over and OVERSHOT or 0)
		+ (l.took and TAKEN or 0) + EACH * l.fit
end
