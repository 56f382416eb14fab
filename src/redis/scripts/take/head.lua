-- Decides on one or more limits of a descriptor, all or none: takes, looks, gives back, resets, or books
-- what was admitted while Redis was away.
--
--   KEYS    one for each limit, all in one slot; for a report one more, which names the reporter; for a
--           reset those of leases, which go, too
--   ARGV    for each limit: flags, cost, capacity, period, and what its flags say: read_limit()
--   reply   now; for each limit: verdict, remaining, retry_after (-1: never), reset_after, and what
--           charged_after() says: the delay of a queue
--
-- The algorithms are those of src/algo, decision by decision, and explained there; here is what is
-- different. Times are µs. All numbers are integers below 2^53, so that a double holds them; a
-- product that may be larger goes through muldiv().
--
-- States are strings, as small as Redis can hold them: what reads as a number of up to 19 digits
-- takes no memory beyond the object. Numbers behind names are bytes, big end first.
--   buckets  number: taken · 10^15 + since - 2020; or if that is too large: since 7 · taken 5
--   fixed    number: count; or window · 10^10 + count
--   counter  index 7 · previous 4 · current 4
--   log      newest 7 · pending 2 · stamps 7 each, oldest first; of more than 128 a ring:
--            newest 7 · pending 2 · head 2 · count 2 · slots 2 · stamps 7 each
-- If soft mode has an excess to remember, it stands before: "s" · last 7 · time from the first 7.
-- If units of a bucket or log are out on lease, these stand before that: "l" · how many 4 · end 7.
-- Nothing else begins with "s" or "l": numbers begin with a digit, times and indexes with a low byte.
--
-- Functions of the libraries are called by their full names on purpose: a local for each would be
-- caught by every closure below, and closures are what a call of this script spends its time on.

local ADMITTED, OVERSHOT, TAKEN, ASTRAY, EACH = 1, 2, 4, 8, 16

local EXACT = 2 ^ 53
local COUNT_MAX = 4294967295
local SKEW_US = 1000000              -- as WR_SKEW_NS
local TTL_MAX = 1000000              -- of a lease
local SPAN_MAX_US = 4611686018427388 -- as wr_span_up()
local REPORT_MS = 60000              -- how long a report is known, should it come again

local now -- by the clock of Redis, read when all states are

-- State goes when the key is as good as new, and a moment later: Redis may count from the beginning
-- of the script, and be held up before the clock is read.
local function life_ms(us)
	return math.ceil(us / 1000) + 100
end

-- a · b / c and what is left over, exact as long as the quotient is below 2^53. c is below 2^52.
local function muldiv(a, b, c)
	if a * b < EXACT then
		local q = math.floor(a * b / c)
		return q, a * b - q * c
	end
	-- Schoolbook, in steps of as many bits of b as c leaves room for.
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
