-- Counts the active nodes. KEYS[1] is a sorted set of nodes by the time of their last call. ARGV[1] is
-- the calling node. Returns the number of nodes that called within the last 10 s, including the
-- caller. Older entries are deleted, and the set expires with its last entry.

local ACTIVE_US = 10000000

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- An entry with a time in the far future was written under another master with another clock, so it
-- is deleted as well.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_us - ACTIVE_US)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now_us + ACTIVE_US, '+inf')
redis.call('ZADD', KEYS[1], now_us, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ACTIVE_US / 1000)
return redis.call('ZCARD', KEYS[1])
