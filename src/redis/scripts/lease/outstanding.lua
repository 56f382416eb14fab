
-- The lease script. It is preceded by the parts of the take script, except decide.lua.
--
--   KEYS    the counter and the lease record; a report has one more key, named after the reporter
--   ARGV    the arguments of a take of one limit; if there is a holder, they are followed by its name,
--           seq, after, spent, returned, wanted, nodes and the maximum ttl (0: no maximum)
--   reply   the reply to a take, followed by granted, ttl, known, and reset_after for the case that
--           all lent units expire
--
-- The lease record is a hash with one entry per holder. An entry has these fields, each with its
-- length in bytes: seq (7), number of units lent (4), end of the lease (7). Then comes the answer
-- to the call with this seq: now (7), verdict (4), remaining or the debt (4), granted (4), retry (7),
-- and two reset times (7 each).
-- Units of a lease that the holder no longer knows are stored under the holder's name and "~seq".
-- The state of a bucket or log also contains the number of lent units, which the take
-- script reads (lent.lua).
--
-- A unit is burnt if its lease ends before the unit is spent or returned. Until a lent unit is spent,
-- returned or burnt, it is counted:
--   windows  in the window in which it was granted; it can be returned to this window only
--   bucket   in the bucket, which is refilled only up to its capacity minus the lent units.
--            Otherwise the token of a lent unit would be refilled before the unit is spent
--   log      in the lease record, as an entry with the stamp of the lease's end. Spent units are
--            added to the log with the stamp of now, burnt units with the stamp of the end

local CHUNK_LEAST = 2
local LOG_MAX = 65532 -- maximum number of entries of a log; the same as WEIR_LOG_MAX
local KNOWN = 16777216 -- the lease record stores verdict + known * KNOWN in one number
-- The value of `granted` in a stored answer if `remaining` is a debt. With a debt, nothing is granted.
local IN_DEBT = COUNT_MAX
local STATE, ANSWER, SIZE = '>I7I4I7', '>I7I4I4I4I7I7I7', 58

local l, occupy = read_limit(KEYS[1]), lent().occupy
-- Tokens that are given back are not counted: no take of the lease script has the flag PROOF.
l.leased = true
local IN_BUCKET, IN_LOG = l.limit and l.limit > 0 and not l.queue, l.kind.peek
-- `held`: the leases, sorted by end; `gone`: names of ended leases; `changed`: leases to be
-- written.
local held, gone, changed = {}, {}, {}

local function by_end(a, b)
	return a.ends < b.ends
end

local function read_record()
	local flat = redis.call('HGETALL', KEYS[2])
	for i = 1, #flat, 2 do
		local text = flat[i + 1]
		if #text == SIZE then
			local seq, out, ends = struct.unpack(STATE, text)
			held[#held + 1] = {name = flat[i], seq = seq, out = out, ends = ends, text = text}
		end
	end
end

-- If the end of a lease is later than now + TTL_MAX, sets it to that time. The end was then computed
-- by another master, whose clock was fast.
local function clamp_ends()
	for _, e in ipairs(held) do
		e.belongs = e.ends - 1 -- a time within the window of the lease
		if e.ends > now + TTL_MAX then
			e.ends = now + TTL_MAX
			changed[#changed + 1] = e
		end
	end
	table.sort(held, by_end)
end

local function sum_out()
	local sum = 0
	for _, e in ipairs(held) do
		sum = sum + e.out
	end
	return sum
end

-- Adds n entries with the stamp `us` to the log. If the units were lent under a higher limit, the
-- log may become longer than the limit. Even then, older entries are not dropped, because the limit
-- may be raised again.
local function join_log(n, us)
	local at, decided, ceiling = l.at, l.decided, l.ceiling
	l.decided, l.ceiling = us, math.min(math.max(ceiling, l.used + n), LOG_MAX)
	l.kind.report(l, n)
	l.at, l.decided, l.ceiling = at, decided, ceiling
end

-- Removes the leases that have ended. Their units are burnt: they count as taken.
local function burn()
	local out, living = sum_out(), {}
	for _, e in ipairs(held) do
		if e.ends > now then
			living[#living + 1] = e
		else
			gone[#gone + 1] = e.name
			if IN_BUCKET then
				occupy(l, e.ends, out)
			elseif IN_LOG and e.out > 0 then
				join_log(e.out, e.ends)
			end
			out = out - e.out
		end
	end
	held = living
	if IN_BUCKET then
		occupy(l, l.at, out)
	end
end

-- Returns the µs until at most `allowed` units are used, assuming that all lent units expire
-- unspent.
local function wait_for(allowed)
	local out, us = sum_out(), 0
	if IN_BUCKET then
		us = l.kind.wait(l, allowed, 0)
		for _, e in ipairs(held) do
			if out > allowed then
				local q, m = muldiv(l.period, out - allowed, l.limit)
				us = math.max(us, math.min(e.ends - now + q + (m > 0 and 1 or 0), SPAN_MAX_US))
			end
			out = out - e.out
		end
		return us
	end
	us = l.kind.wait(l, math.max(allowed - out, 0), 0)
	for _, e in ipairs(held) do
		if out > allowed then
			us = math.max(us, e.ends + l.period - now)
		end
		out = out - e.out
	end
	return us
end
