
local LOST_MAX = 10000 -- maximum number of lines that reclaim_lost() looks at
-- one call makes at most this many expired requests dead letters; the next call continues
local EXPIRED_MAX = 100
local BYTES_MAX = 8388608 -- a reply whose bodies have this many bytes gets no further request
-- 30 days; an owner without a new connection for this long is deleted
local OWNER_US = 2592000000000

-- Frees lines that were taken longer than lease_us ago. The owner of such a line has died or is too
-- slow.
local function reclaim()
  for _, line in ipairs(call('ZRANGEBYSCORE', key('taken'), '-inf', int(now), 'LIMIT', 0, 100)) do
    set_free(line)
  end
end

local function expire(line, id, keep_dead)
  local at = call('HMGET', row(id), 'st', 'why')
  local why = at[2] and at[2] ~= '' and 'too old; last: ' .. at[2] or 'too old'
  finish(id, DEAD, at[1] or 0, string.sub(why, 1, 200), keep_dead)
  leave(line, id)
  set_due(line)
end

-- Frees the lines of this owner whose fence is higher than `received`, the highest fence that the
-- owner has received. The owner did not receive these lines, because the replies were lost with the
-- connection. If the lines were not freed, their requests would not be delivered until the time
-- lease_us has passed.
local function reclaim_lost(owner, received)
  for _, line in ipairs(call('ZRANGE', key('taken'), 0, LOST_MAX - 1)) do
    local what, who = holder(line)
    if who == owner and tonumber(string.match(what, '^%d+')) > received then
      set_free(line)
    end
  end
end

local function hand_out(line, id, lease, owner)
  local fence = call('INCR', key('fences'))
  call('ZREM', key('due'), line)
  call('ZADD', key('taken'), int(now + lease), line)
  call('HSET', key('holder'), line, fence .. ':' .. id .. ':' .. owner)
  return fence
end

-- If `link` is the latest connection of the owner, stores its number and returns nil. Otherwise
-- returns the number of the latest connection. In this case the take was sent on an old
-- connection, and the caller must ignore it, for two reasons. The reply to the take would be lost,
-- so the lines in the reply would stay taken. And the take could free lines that the owner has
-- received through the latest connection.
local function newer_link(owner, link)
  local last = tonumber(call('HGET', key('links'), owner) or 0)
  if link < last then return last end
  if link == last then return end
  for _, old in ipairs(call('ZRANGEBYSCORE', key('owners'), '-inf', int(now - OWNER_US), 'LIMIT', 0, 10)) do
    call('ZREM', key('owners'), old)
    call('HDEL', key('links'), old)
  end
  call('HSET', key('links'), owner, int(link))
  call('ZADD', key('owners'), int(now), owner)
end

-- take MAX LEASE KEEP_DEAD OWNER RECEIVED LINK
--   → {now, expired, next, line, waiting, …, '', fence, row, …}
-- Returns requests for delivery. MAX: maximum number of requests. LINK: number of the connection.
-- RECEIVED: on a new connection the highest fence that OWNER has received, otherwise below 0.
-- expired: number of requests that were too old and are dead now. Each pair (line, waiting) is the
-- line of an expired request and the number of requests that still wait in this line. After ''
-- follow the requests to deliver, each with its fence. next: time until the next line is due, or
-- below 0 if no line waits. If OWNER has had a later connection, nothing is changed, expired is -1
-- and next is the number of the later connection.
function verbs.take(max, lease, keep_dead, owner, received, link)
  local reported, given, bytes, expired = {}, {}, 0, 0
  local newer = newer_link(owner, tonumber(link))
  if newer then return {now, -1, newer, ''} end
  lease, max, keep_dead = tonumber(lease), tonumber(max), tonumber(keep_dead)
  reclaim()
  if tonumber(received) >= 0 then reclaim_lost(owner, tonumber(received)) end
  while #given < 2 * max and expired < EXPIRED_MAX and bytes < BYTES_MAX do
    local line = call('ZRANGEBYSCORE', key('due'), '-inf', int(now), 'LIMIT', 0, 1)[1]
    if not line then break end
    local id = call('ZRANGE', line_key(line), 0, 0)[1]
    if not id then
      call('ZREM', key('due'), line)
    elseif tonumber(call('HGET', row(id), 'exp')) <= now then
      expire(line, id, keep_dead)
      expired = expired + 1
      append_line(reported, line)
    else
      given[#given + 1] = hand_out(line, id, lease, owner)
      given[#given + 1] = read(id, 'all')
      bytes = bytes + given[#given][15]
    end
  end
  if #given > 0 or expired > 0 then save_time() end
  local first = call('ZRANGE', key('due'), 0, 0, 'WITHSCORES')[2]
  local out = {now, expired, first and math.max(0, tonumber(first) - now) or -1}
  append(out, reported)
  append(out, {''})
  append(out, given)
  return out
end
