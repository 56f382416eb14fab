
-- Main part of the lease script: counts spent and returned units, decides on the take, lends units,
-- and writes the counter and the lease record.
local holder = ARGV[at + 1]
at = at + 1
local seq, after, spent, returned, wanted, nodes, longest
if holder then
	seq, after, spent, returned = arg(), arg(), arg(), arg()
	wanted, nodes, longest = arg(), arg(), arg()
end

local own, known = nil, 1

local function in_window(us)
	if l.kind.life then
		return us >= l.start and us < l.stop
	end
	return not l.index or math.floor(us / l.period) == l.index
end

-- Empties the holder's entry in the lease record. Called if the entry has another sequence number
-- than `after`, or belongs to another window. For a bucket or a log, a copy of the entry stays in
-- the record under another name, because the holder can still spend the units of the entry until it
-- gets the answer to this call.
local function disown()
	if own.out > 0 and (IN_BUCKET or IN_LOG) then
		local orphan = {}
		for k, v in pairs(own) do
			orphan[k] = v
		end
		orphan.name = holder .. '~' .. string.format('%.0f', own.seq)
		held[#held + 1] = orphan
		changed[#changed + 1] = orphan
	end
	own.out, own.ends = 0, 0
end

-- Finds the holder's entry in the lease record. Calls disown() if the entry has another sequence
-- number than `after`, or belongs to another window.
local function recognize()
	for _, e in ipairs(held) do
		own = e.name == holder and e or own
	end
	if own and (own.seq ~= after or not in_window(own.belongs)) then
		known = after == 0 and 1 or 0
		disown()
	elseif not own then
		known = after == 0 and 1 or 0
		own = {name = holder, out = 0, ends = 0, seq = 0}
		held[#held + 1] = own
	end
end

local function settle()
	spent = math.min(spent, own.out)
	returned = math.min(returned, own.out - spent)
	if IN_LOG then
		if spent > 0 then
			join_log(spent, l.at)
		end
	elseif returned > 0 then
		local decided = l.decided
		l.decided = not IN_BUCKET and own.belongs
		l.kind.give(l, returned)
		l.decided = decided
	end
	own.out = own.out - spent - returned
end

local function take()
	l.lent_entries = IN_LOG and sum_out() or 0
	decide(l)
	if not (l.report and was_reported(l.report)) then
		apply(l, l.fit > 0)
	end
	if IN_BUCKET and l.cost < 0 then
		occupy(l, l.at, sum_out())
	end
end

local function left_unlent()
	return left(l, IN_LOG and sum_out() or 0)
end

local function ttl_of()
	local ttl = math.min(TTL_MAX, math.floor((l.span or l.period) / 10))
	if l.kind.life then
		ttl = math.min(ttl, l.stop - now)
	elseif l.index then
		ttl = math.min(ttl, l.late + l.left)
	end
	return longest > 0 and math.min(ttl, longest) or ttl
end

local function grant()
	local granted, ttl = math.min(wanted, math.floor(left_unlent() / (2 * nodes))), ttl_of()
	granted = math.min(granted, COUNT_MAX - own.out)
	if granted < CHUNK_LEAST or ttl < 1 or l.queue or l.soft or l.count_rejected then
		granted = 0
	elseif not IN_LOG then
		l.kind.add(l, granted)
	end
	own.out, own.seq = own.out + granted, seq
	own.ends = math.max(own.ends, now + ttl)
	own.belongs = own.ends - 1
	return granted, ttl
end

local function wait_times(retry, reset)
	local out = (IN_BUCKET or IN_LOG) and sum_out() or 0
	if l.fit < l.times then
		retry = retry_after(l)
		if out > 0 and retry >= 0 and not l.soft then
			retry = wait_for(l.capacity - l.n)
		end
	end
	reset = l.kind.reset(l)
	if l.soft then
		reset = math.max(reset, l.soft.rearm_after(l))
	end
	return retry, reset, out > 0 and math.max(reset, wait_for(0)) or reset
end

-- Stores in the counter how many units are lent, for calls that do not read the lease record.
local function note_lent()
	local out, ends = 0, 0
	for _, e in ipairs(held) do
		if e.out > 0 then
			out, ends = math.min(out + e.out, COUNT_MAX), math.max(ends, e.ends)
		end
	end
	if (IN_BUCKET or IN_LOG) and (out ~= (l.lent or 0) or (out > 0 and ends ~= l.ends)) then
		l.lent, l.ends, l.noted = out > 0 and out, ends, true
	end
end

-- Writes the changes of the lease record. The record expires when all leases have ended and can no
-- longer influence decisions.
local function write_record(life)
	local args = {'HSET', KEYS[2]}
	for _, e in ipairs(changed) do
		args[#args + 1] = e.name
		args[#args + 1] = struct.pack(STATE, e.seq, e.out, e.ends) .. string.sub(e.text, 19)
	end
	for _, name in ipairs(gone) do
		redis.call('HDEL', KEYS[2], name)
	end
	if #args > 2 then
		redis.call(unpack(args))
	end
	if #gone > 0 or #args > 2 then
		for _, e in ipairs(held) do
			life = math.max(life, e.ends - now)
		end
		redis.call('PEXPIRE', KEYS[2], life_ms(life))
	end
end

-- If the call is a repetition, returns its first answer, with the same end of the lease. If the holder
-- has already sent a later call, returns an empty answer. Otherwise returns nil.
local function repeated_answer()
	for _, e in ipairs(held) do
		local current = e.name == holder and e.ends > now
		if current and e.seq == seq then
			local was, verdict, remaining, granted, retry, reset, all = struct.unpack(ANSWER, e.text, 19)
			if granted == IN_DEBT then
				remaining, granted = -remaining, 0
			end
			return {was, verdict % KNOWN, remaining, retry - 1, reset, 0, granted,
				e.out > 0 and e.ends - now or 0, math.floor(verdict / KNOWN), all}
		elseif current and e.seq > seq then
			return {now, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		end
	end
end

fetch(l)
if holder or IN_BUCKET or IN_LOG then
	read_record()
end
local time = redis.call('TIME')
now = tonumber(time[1]) * 1000000 + tonumber(time[2])
load(l)
if l.outside then
	return {now, OUTSIDE, 0, 0, 0, 0, 0, 0, 0, 0}
end
clamp_ends()
local answered = holder and repeated_answer()
if answered then
	return answered
end
burn()
if holder then
	recognize()
	settle()
end
take()
local granted, ttl = 0, 0
if holder then
	granted, ttl = grant()
	table.sort(held, by_end)
end
local remaining = math.max(left_unlent(), -COUNT_MAX)
local retry, reset, all_out = wait_times(0, 0)
note_lent()
if l.changed or l.noted then
	store(l, l.lent and all_out or reset)
end
if holder then
	own.text = struct.pack(STATE, seq, own.out, own.ends)
		.. struct.pack(ANSWER, now, verdict_of(l) + known * KNOWN, math.abs(remaining), remaining < 0 and IN_DEBT or granted, retry + 1, reset, all_out)
	changed[#changed + 1] = own
end
write_record(all_out)
return {now, verdict_of(l), remaining, retry, reset, charged_after(l), granted,
	own and own.out > 0 and ttl or 0, known, all_out}
