-- Takes units for one or more limits of a descriptor: for all of these limits or for none. The
-- script can also read limits, give units back, charge units beyond a limit, settle a reservation,
-- reset counters, and record units that a node admitted while Redis was unavailable.
--
--   KEYS    one key per limit, all in one slot. A report has one more key, named after the reporter.
--           A give-back has one more key per limit, which was_reset() reads. A give-back to a token
--           bucket, and a take with the flag PROOF, have one more key: that of given() in bucket.lua. A reset has more keys,
--           which are deleted: the lease records, and the keys that was_reset() reads. The first key
--           of a claim is the marker of a reservation; give-backs and debts follow, which are
--           executed only if the marker is taken
--   ARGV    for each limit: flags, cost, capacity, period, and the optional arguments of its flags,
--           see read_more()
--   reply   now; for each limit: verdict, remaining (below 0: a debt), retry_after (-1: never),
--           reset_after, and charged_after(), which for a queue is the delay. Then, for each take
--           with the flag PROOF, given_now()
--
-- The algorithms make the same decisions as those of src/algo, where they are explained. The
-- comments here describe only the differences. Times are µs. All numbers are integers below 2^53,
-- which a double represents exactly. Products that may be larger go through muldiv().
--
-- The state of slots is a sorted set. All other states are strings, as small as Redis can store them:
-- a number of up to 19 digits needs no memory besides the object. A state is a decimal number, or it
-- consists of fields, most significant byte first. A number in brackets is the length of a field in
-- bytes.
--   buckets  the decimal number taken * 10^15 + µs from 2020 to `since`; if it would be too large,
--            the fields since (7), taken (5)
--   fixed    the decimal number count, or window * 10^10 + count
--   counter  the fields index (7), previous (4), current (4)
--   log      the fields newest (7), pending (2), and the stamps (7 each), oldest first. A log with
--            more than 128 stamps is a ring, with the fields newest (7), pending (2), head (2),
--            count (2), slots (2), and the stamps (7 each)
-- If soft mode has recorded an excess, the state is preceded by "s" and the fields time of the last
-- excess (7), time from the first excess to the last (7). If units of a bucket or log are lent, all
-- this is preceded by "l" and the fields number of lent units (4), end of the last lease (7).
-- No other state begins with "s" or "l": decimals begin with a digit, and the
-- first byte of a time or an index is a small number.
--
-- Library functions are called by their full names on purpose: a local for each would become an
-- upvalue of every closure below, and creating closures is the main cost of a call.

local ADMITTED, OVERSHOT, TAKEN, OUTSIDE, EACH = 1, 2, 4, 8, 16

local EXACT = 2 ^ 53
local COUNT_MAX = 4294967295
local TAKEN_MAX = 8589934591 -- the same as WR_BUCKET_MOST
-- If the time of a state is later than now by more than this, the clock has stepped back. The value
-- is the same as WR_SKEW_NS.
local SKEW_US = 1000000
local TTL_MAX = 1000000              -- maximum duration of a lease
local SPAN_MAX_US = 4611686018427388 -- longer times are shortened to this, as in wr_algo_span_up()
local REPORT_MS = 60000              -- how long the sequence number of a report is stored

local now -- the time by the clock of Redis, which is read after all states

-- Returns the time to live, in ms, with which a key is written. `us` is the time in µs after which
-- the key's state is back to its initial value. A margin is added, because Redis may count from the
-- start of the script, and the script may be delayed before it reads the clock.
local function life_ms(us)
	return math.ceil(us / 1000) + 100
end

-- Returns a · b / c and the remainder. c must be below 2^52. The result is exact if the quotient is
-- below 2^53.
local function muldiv(a, b, c)
	if a * b < EXACT then
		local q = math.floor(a * b / c)
		return q, a * b - q * c
	end
	-- Long multiplication: b is split into high and low bits. A recursive call multiplies the
	-- high bits. The low bits are so few that products with them are exact: c times their value
	-- is at most 2^53.
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
