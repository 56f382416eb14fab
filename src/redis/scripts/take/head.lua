-- Decides on one or more limits of a descriptor, all or none: takes, looks, gives back, or books what
-- was admitted while Redis was away.
--
--   KEYS    one for each limit, all in one slot; for a report one more, the last: whose it is
--   ARGV    for each limit: flags, cost, capacity, period, then what its flags say, see read_limit()
--   reply   now, then for each limit: verdict, remaining, retry_after (-1: never), reset_after, delay
--
-- The algorithms are those of src/algo, decision by decision, with their comments and their proofs;
-- here are the states, and what is different in Lua. Times are µs. All numbers are integers below
-- 2^53, so that a double holds them; a product that may be larger goes through muldiv().
--
-- State by algorithm, each a string, as small as Redis can hold it. A number of up to 19 digits is an
-- integer to Redis and takes no memory of its own:
--   buckets  number: taken · 10^15 + since - 2020; or where that is too large: since 7 · taken 5
--   fixed    number: window · 10^10 + count
--   counter  index 7 · previous 4 · current 4
--   log      newest 7 · pending 2 · stamps 7 each, oldest first; or from 129 stamps on a ring:
--            newest 7 · pending 2 · head 2 · count 2 · slots 2 · stamps 7 each
-- Where soft mode has something to remember, "s" · last excess 7 · from first to last 7 stand before.
-- None begins with "s" by itself: times begin with a 0 byte or so, numbers with a digit.

local COUNT_REJECTED, SOFT, MAX_WAIT, CALENDAR, DECIDED, TIMES, REPORT = 8, 16, 32, 64, 128, 256, 512
local ADMITTED, OVERSHOT, TAKEN, ASTRAY, EACH = 1, 2, 4, 8, 16

local EXACT = 2 ^ 53
local COUNT_MAX = 4294967295
local SKEW_US = 1000000             -- as WR_SKEW_NS
local SPAN_MAX_US = 4611686018427388 -- as wr_span_up()
local REPORT_MS = 60000             -- how long a report is known, should it come twice

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local sub, rep, format = string.sub, string.rep, string.format
local pack, unpack = struct.pack, struct.unpack
local call, band = redis.call, bit.band

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- State goes when the key is as good as new. Redis counts from the beginning of the script.
local function life_ms(us)
	return ceil(us / 1000) + 1
end

-- a · b / c and what is left over, exact as long as the quotient is below 2^53. c is below 2^52.
local function muldiv(a, b, c)
	if a * b < EXACT then
		local q = floor(a * b / c)
		return q, a * b - q * c
	end
	-- Schoolbook, in steps of as many bits of b as c leaves room for.
	local whole = floor(a / c)
	local _, bits = math.frexp(EXACT / c)
	local step = 2 ^ (bits - 1)
	local high = floor(b / step)
	a = a - whole * c
	local q, m = muldiv(a, high, c)
	local low = a * (b - high * step)
	m = m * step
	local rest = m % c + low % c
	q = whole * b + q * step + floor(m / c) + floor(low / c)
	if rest >= c then
		return q + 1, rest - c
	end
	return q, rest
end

local function late(state_us)
	return state_us > now and state_us - now <= SKEW_US and state_us - now or 0
end
