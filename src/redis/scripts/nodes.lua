-- Who takes part: KEYS[1] is a sorted set of nodes by when they were last heard from, ARGV[1] the
-- one that calls. Returns how many were within 10 s, the caller included. Nothing outlives its node
-- by much: those gone for longer are dropped, and the set with the last of them.

local HEARD_US = 10000000

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- A name from later than now was noted by the clock of a master that went away.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_us - HEARD_US)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now_us + HEARD_US, '+inf')
redis.call('ZADD', KEYS[1], now_us, ARGV[1])
redis.call('PEXPIRE', KEYS[1], HEARD_US / 1000)
return redis.call('ZCARD', KEYS[1])
