-- The queue of deferred requests in Redis. KEYS[1] is what all its keys begin with; ARGV[1] says what
-- is to be done. Each call does all of it or nothing, and says what the queue's time was.
--
--   :seq              numbers of requests, rising          :fences  numbers of takes, rising
--   :r:ID             a hash, one request
--   :l:LINE           a sorted set, ids that wait in this line, by id
--   :due              lines that nobody has taken, by when their head is due
--   :taken :holder    lines that somebody has: by when the lease ends;
--                     LINE → FENCE:ID:OWNER
--   :links :owners    OWNER → number of its connection; owners by when it was new
--   :ids :waiting :dead                   ids of all requests, of those in this state
--   :tickets          hash of a ticket → id
--   :gone :gone_dead  finished ids, by when they are forgotten
--   :changes :changed lines by the number of their last change, for other gateways
--   :held             LINE → bytes of those that wait there; not of lines that an older weir filled
--   :n                numbers: bytes, dead_bytes (of these), put, delivered, retried, dead, dropped,
--                     last, ahead
--
-- Times are µs. A request: t ticket's hash, k line, rule, s state (0 waiting, 2 delivered, 3 dead,
-- 4 dropped), n tries, m most tries, a most age, i interval, at accepted, due, exp expires, done,
-- st status, why, b bytes, l length of body, h head, y body, f fence of who settled it last.

local base = KEYS[1]
local call = redis.call

local WAITING, DELIVERED, DEAD, DROPPED = '0', '2', '3', '4'

local function key(name)
  return base .. ':' .. name
end

-- Numbers above 10^14 would be written with an exponent.
local function int(number)
  return string.format('%.0f', number)
end

-- The queue's time: that of this server, but it never goes back. Another server, or a clock that was
-- set, would keep what waits from becoming due.
local function time()
  local t = call('TIME')
  local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
  local kept = call('HMGET', key('n'), 'last', 'ahead')
  local ahead = tonumber(kept[2] or 0)
  if kept[1] and now + ahead < tonumber(kept[1]) then
    ahead = tonumber(kept[1]) - now
    call('HSET', key('n'), 'ahead', int(ahead))
  end
  return now + ahead
end

local now = time()

local function note_time()
  call('HSET', key('n'), 'last', int(now))
end

local function row(id)
  return key('r:' .. id)
end

local function line_key(line)
  return key('l:' .. line)
end

local function count(line)
  return call('ZCARD', line_key(line))
end

local function changed(line)
  call('ZADD', key('changed'), call('INCR', key('changes')), line)
end

-- A line that nobody has: its head decides when it is due.
local function set_due(line)
  local head = call('ZRANGE', line_key(line), 0, 0)[1]
  if not head then
    call('ZREM', key('due'), line)
    return
  end
  local at = call('HMGET', row(head), 'due', 'exp')
  call('ZADD', key('due'), int(math.min(tonumber(at[1]), tonumber(at[2]))), line)
end

local function is_taken(line)
  return call('HEXISTS', key('holder'), line) == 1
end

-- What a line's holder has: 'FENCE:ID', and who he is; nil if there is none.
local function holder(line)
  return string.match(call('HGET', key('holder'), line) or '', '^(%d+:%d+):(.*)$')
end

local function set_free(line)
  call('ZREM', key('taken'), line)
  call('HDEL', key('holder'), line)
  set_due(line)
end

-- Bytes of those that wait in a line. Added up where an older weir has not.
local function held(line)
  local known = call('HGET', key('held'), line)
  if known then return tonumber(known) end
  local sum = 0
  for _, id in ipairs(call('ZRANGE', line_key(line), 0, -1)) do
    sum = sum + tonumber(call('HGET', row(id), 'b') or 0)
  end
  call('HSET', key('held'), line, int(sum))
  return sum
end

-- One joins the line, or (sign '-') leaves it.
local function hold(line, id, sign)
  held(line)
  call('HINCRBY', key('held'), line, sign .. call('HGET', row(id), 'b'))
end

-- The bytes of dead letters, by so much more or (sign '-') less; before they are dead, or no more.
local function add_dead(id, sign)
  if call('HEXISTS', key('n'), 'dead_bytes') == 0 then
    local sum = 0
    for _, one in ipairs(call('ZRANGE', key('dead'), 0, -1)) do
      sum = sum + tonumber(call('HGET', row(one), 'b') or 0)
    end
    call('HSET', key('n'), 'dead_bytes', int(sum))
  end
  if id then call('HINCRBY', key('n'), 'dead_bytes', sign .. call('HGET', row(id), 'b')) end
  return tonumber(call('HGET', key('n'), 'dead_bytes'))
end

-- The bytes of all requests that wait.
local function waiting_bytes()
  return tonumber(call('HGET', key('n'), 'bytes') or 0) - add_dead()
end

-- Returns the reason why one more request of this size may not wait in the line, or nil.
local function no_room(line, bytes, max_waiting, max_requests, max_bytes, max_line_bytes)
  bytes = tonumber(bytes)
  if call('ZCARD', key('waiting')) >= tonumber(max_requests) then return 'full' end
  if waiting_bytes() + bytes > tonumber(max_bytes) then return 'bytes_full' end
  if count(line) >= tonumber(max_waiting) then return 'key_full' end
  if count(line) > 0 and held(line) + bytes > tonumber(max_line_bytes) then
    return 'key_bytes_full'
  end
end

-- It waits no more; its row says so already.
local function leave(line, id)
  hold(line, id, '-')
  call('ZREM', line_key(line), id)
  if count(line) == 0 then call('HDEL', key('held'), line) end
  call('ZREM', key('waiting'), id)
  changed(line)
end

-- To a state that is final. What is dead is kept whole.
local function finish(id, state, status, why, keep)
  local r = row(id)
  call('HSET', r, 's', state, 'st', status, 'why', why, 'done', int(now))
  if state == DEAD then
    add_dead(id, '')
    call('ZADD', key('dead'), id, id)
    call('ZADD', key('gone_dead'), int(now + keep), id)
    call('HINCRBY', key('n'), 'dead', 1)
    return
  end
  call('HINCRBY', key('n'), 'bytes', '-' .. call('HGET', r, 'b'))
  call('HDEL', r, 'h', 'y')
  call('ZADD', key('gone'), int(now + keep), id)
  call('HINCRBY', key('n'), state == DELIVERED and 'delivered' or 'dropped', 1)
end

-- What the caller reads of a request, in this order; content: its head besides, and with 'all' its
-- body.
local function read(id, content)
  local r = call('HMGET', row(id), 't', 'k', 'rule', 's', 'n', 'm', 'i', 'at', 'due', 'exp', 'done',
    'st', 'why', 'l')
  local from = content and call('HMGET', row(id), 'h', content == 'all' and 'y' or 'h') or {}
  local out = {id, r[1], r[2], r[3]}
  for i = 4, 12 do
    out[#out + 1] = tonumber(r[i]) or 0
  end
  out[#out + 1] = r[13] or ''
  out[#out + 1] = tonumber(r[14]) or 0
  out[#out + 1] = from[1] or ''
  out[#out + 1] = content == 'all' and from[2] or ''
  return out
end

local verbs = {}
