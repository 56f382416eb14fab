-- Counts the active nodes: KEYS[1] is a sorted set of nodes by the time of their last call, ARGV[1] is the
-- calling node. Returns the number of nodes that called within 10 s, including the caller. Older
-- entries are deleted, and the set expires with its last entry.

local HEARD_US = 10000000

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- A time far in the future was written under another master with another clock, so such entries are
-- deleted too.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_us - HEARD_US)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now_us + HEARD_US, '+inf')
redis.call('ZADD', KEYS[1], now_us, ARGV[1])
redis.call('PEXPIRE', KEYS[1], HEARD_US / 1000)
return redis.call('ZCARD', KEYS[1])
