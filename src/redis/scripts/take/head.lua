-- Decides on one or more limits of a descriptor, all or none: takes units, reads, gives back, resets, or
-- records units that a node admitted while Redis was unavailable.
--
--   KEYS    one key per limit, all in one slot. A report has one more key, named after the reporter.
--           A reset has more keys, which are deleted: those of lease records
--   ARGV    for each limit: flags, cost, capacity, period, and the optional arguments of its flags,
--           see read_more()
--   reply   now; for each limit: verdict, remaining, retry_after (-1: never), reset_after, and
--           charged_after(), which for a queue is the delay
--
-- The algorithms are those of src/algo, decision by decision, and explained there. The comments here
-- describe only the differences. Times are µs. All numbers are integers below 2^53, which a double
-- represents exactly. Products that may be larger go through muldiv().
--
-- States are strings, as small as Redis can store them: a number of up to 19 digits needs no memory
-- besides the object. The numbers after names are bytes, most significant first.
--   buckets  number: taken · 10^15 + since - 2020; or if that is too large: since 7 · taken 5
--   fixed    number: count; or window · 10^10 + count
--   counter  index 7 · previous 4 · current 4
--   log      newest 7 · pending 2 · stamps 7 each, oldest first; with more than 128 a ring:
--            newest 7 · pending 2 · head 2 · count 2 · slots 2 · stamps 7 each
-- If soft mode has recorded an excess, these bytes precede the state: "s" · time of the last excess 7 ·
-- time from the first excess to the last 7. If units of a bucket or log are lent, these bytes precede
-- excess and state: "l" · number of units 4 · end 7.
-- No other state begins with "s" or "l": numbers begin with a digit, times and indexes with a low byte.
--
-- Library functions are called by their full names on purpose: a local for each would become an
-- upvalue of every closure below, and creating closures is the main cost of a call.

local ADMITTED, OVERSHOT, TAKEN, OUTSIDE, EACH = 1, 2, 4, 8, 16

local EXACT = 2 ^ 53
local COUNT_MAX = 4294967295
local SKEW_US = 1000000              -- the same as WR_SKEW_NS
local TTL_MAX = 1000000              -- maximum duration of a lease
local SPAN_MAX_US = 4611686018427388 -- the maximum of wr_span_up()
local REPORT_MS = 60000              -- how long the sequence number of a report is stored

local now -- the time by the clock of Redis, which is read after all states

-- Returns the milliseconds until a key expires: `us`, after which its state is back to the initial
-- value, plus a margin. The margin is needed because Redis may count from the start of the script,
-- which may be delayed before the clock is read.
local function life_ms(us)
	return math.ceil(us / 1000) + 100
end

-- Returns a · b / c and the remainder. c must be below 2^52. The result is exact if the quotient is below
-- 2^53.
local function muldiv(a, b, c)
	if a * b < EXACT then
		local q = math.floor(a * b / c)
		return q, a * b - q * c
	end
	-- Long multiplication, in steps of as many bits of b as c leaves room for.
	local whole = math.floor(a / c)
	local _, bits = math.frexp(EXACT / c)
	local step = 2 ^ (bits - 1)
	local high = math.floor(b / step)
	a = a - whole * c
	local q, m = muldiv(a, high, c)
	local low = a * (b - high * step)
	m = m * step
	local rest = m % c + low % c
	q = whole * b + q * step + math.floor(m / c) + math.floor(low / c)
	if rest >= c then
		return q + 1, rest - c
	end
	return q, rest
end

local function late(state_us)
	return state_us > now and state_us - now <= SKEW_US and state_us - now or 0
end
