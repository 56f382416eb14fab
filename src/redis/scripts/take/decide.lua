local KINDS = {bucket, bucket, fixed, counter, log}
local made = {}

local at = 0
local function arg()
	at = at + 1
	return tonumber(ARGV[at])
end

local function read_limit(key)
	local flags = arg()
	local algorithm = band(flags, 7)
	local l = {key = key, cost = arg(), capacity = arg(), period = arg(), times = 1, base = 0}
	l.n = l.cost == 0 and 1 or math.abs(l.cost)
	l.ceiling = l.capacity
	l.count_rejected = band(flags, COUNT_REJECTED) > 0
	l.queue = algorithm == 2
	l.limit = algorithm <= 2 and arg()
	if band(flags, SOFT) > 0 then
		l.ceiling, l.soft_for, l.span = arg(), arg(), l.period
	end
	l.max_wait = band(flags, MAX_WAIT) > 0 and arg()
	if band(flags, CALENDAR) > 0 then
		l.before, l.start, l.stop, l.after = arg(), arg(), arg(), arg()
		l.span = l.span and (l.period > 0 and l.period or l.stop - l.start)
	end
	l.decided = band(flags, DECIDED) > 0 and arg()
	l.times = band(flags, TIMES) > 0 and arg() or 1
	l.report = band(flags, REPORT) > 0 and arg()
	made[algorithm] = made[algorithm] or KINDS[algorithm]()
	l.kind = made[algorithm]
	return l
end

local function load(l)
	local kind, v = l.kind
	if kind.peek then
		v = call('GETRANGE', l.key, 0, kind.peek)
	else
		v = call('GET', l.key)
	end
	if v and #v >= 15 and sub(v, 1, 1) == 's' then
		l.last, l.lasted = unpack('>I7I7', v, 2)
		l.base, v = 15, sub(v, 16)
		if l.soft_for and last_excess(l, now) ~= l.last then
			l.last, l.noted = now, true
		end
	end
	l.value = v or ''
	kind.load(l, v ~= '' and v)
end

local function beyond(l)
	return l.max_wait and l.kind.beyond(l) or 0
end

local function decide(l)
	l.fit, l.delay = 0, l.queue and l.kind.reset(l) or 0
	if l.astray then
		return
	elseif l.cost < 0 or l.report then
		l.fit, l.delay = 1, 0
	elseif l.used + l.n <= l.capacity and beyond(l) == 0 then
		l.fit = min(l.times, floor((l.capacity - l.used) / l.n))
	elseif l.soft_for and l.used + l.n <= l.ceiling and not spent(l, now) then
		l.fit, l.over = 1, true
	end
end

local function apply(l, all)
	local kind = l.kind
	if l.report then
		kind.report(l, l.n)
	elseif l.cost < 0 then
		kind.give(l, l.n)
	elseif l.cost > 0 then
		if l.soft_for and (l.fit == 0 or (l.over and all)) then
			note_excess(l)
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
	if not l.soft_for then
		local over = beyond(l)
		return max(us, over > 0 and over + l.late or 0)
	end
	-- The ceiling's wait holds if the grace lasts until then, or else once it is armed again.
	local above = kind.wait(l, l.ceiling, l.n)
	if spent(l, now + above) then
		above = max(above, rearm_after(l))
	end
	return us and min(us, above) or above
end

-- An excess that was noted does not make the rest of the state any newer.
local function store(l, reset)
	local soft = l.last and 's' .. pack('>I7I7', l.last, l.lasted) or ''
	local value = l.value
	if l.changed or l.kind.peek then
		value = l.kind.pack(l, soft)
	end
	if value then
		call('SET', l.key, soft .. value, 'PX', life_ms(reset))
	else
		call('PEXPIRE', l.key, life_ms(reset))
	end
end

local limits, all, astray = {}, true, false
while ARGV[at + 1] do
	local l = read_limit(KEYS[#limits + 1])
	load(l)
	decide(l)
	all = all and l.fit > 0
	astray = astray or l.astray
	limits[#limits + 1] = l
end

-- A report that comes again, because nobody knew whether it had, is not booked twice.
local seq = limits[1].report
local known = astray
if seq then
	local before = tonumber(call('GET', KEYS[#KEYS]) or 0) or 0
	known = known or before >= seq
	if not known then
		call('SET', KEYS[#KEYS], format('%d', seq), 'PX', REPORT_MS)
	end
end

local reply = {now}
for _, l in ipairs(limits) do
	local verdict, remaining, retry, reset = 0, 0, 0, 0
	if l.astray then
		verdict = ASTRAY
	else
		if not known then
			apply(l, all)
		end
		reset = l.kind.reset(l)
		if l.soft_for then
			reset = max(reset, rearm_after(l))
		end
		remaining = beyond(l) > 0 and 0 or max(l.capacity - l.used, 0)
		if l.fit < l.times then
			retry = retry_after(l)
		end
		verdict = (l.fit > 0 and ADMITTED or 0) + (l.over and OVERSHOT or 0)
			+ (l.took and TAKEN or 0) + EACH * l.fit
		if l.changed or l.noted then
			store(l, reset)
		end
	end
	local n = #reply
	reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = verdict, remaining, retry, reset
	reply[n + 5] = all and l.delay or 0
end
return reply
