-- The queue of deferred requests in Redis. KEYS[1] is the prefix of all keys, ARGV[1] the verb.
-- Each call is atomic. The first element of each reply is the queue's time. A fence is the number
-- of a take. The keys are, after the prefix:
--
--   :seq              the highest request id so far
--   :fences           the highest fence so far
--   :r:ID             hash: the fields of a request, see below
--   :l:LINE           sorted set: ids of the requests that wait in this line, by id
--   :due              sorted set: lines without a request in delivery, by the time when they
--                     are due
--   :taken            sorted set: lines with a request in delivery, by the time when they become
--                     free again if no settle comes
--   :holder           hash: LINE → FENCE:ID:OWNER, for the lines in :taken
--   :links            hash: OWNER → number of its latest connection
--   :owners           sorted set: owners, by the time of their latest connection
--   :ids              sorted set: ids of all requests
--   :waiting :dead    sorted sets: ids of the requests in this state
--   :tickets          hash: SHA-256 of a ticket → id of the request
--   :gone             sorted set: ids of delivered and dropped requests, by the time when the
--                     requests are deleted
--   :gone_dead        sorted set: ids of dead requests, by the time when the requests are deleted
--   :changes          the highest change number so far
--   :changed          sorted set: lines, by the number of their latest change
--   :held             hash: LINE → size of its waiting requests; missing for a line that an older
--                     version of weir stored
--   :n                hash of counters: bytes, dead_bytes (part of bytes), put, delivered, retried,
--                     dead, dropped; last: the queue's time at the latest change; ahead: the
--                     queue's time minus the server's clock
--
-- Times are in µs, sizes in bytes. The fields of a request are:
--
--   t     SHA-256 of the ticket                at    time of acceptance
--   k     line                                 due   time of the next delivery attempt
--   rule  name of the rule                     exp   time when the request is too old to deliver
--   s     state: 0 waiting, 2 delivered,       done  time when it was delivered, dead or dropped
--         3 dead, 4 dropped                    st    HTTP status of the latest try
--   n     number of tries                      why   reason of the latest failure
--   m     maximum number of tries              b     size that counts towards max_bytes
--   a     maximum age                          l     length of the body
--   i     interval_us (deferred.h)             h     head (record.h)
--   f     fence of the latest settle           y     body

local base = KEYS[1]
local call = redis.call

local WAITING, DELIVERED, DEAD, DROPPED = '0', '2', '3', '4'

local function key(name)
  return base .. ':' .. name
end

-- Formats a number as an integer. Lua's tostring() would write numbers above 10^14 with an
-- exponent.
local function int(number)
  return string.format('%.0f', number)
end

-- Returns the queue's time: the server's clock, corrected so that it never goes back. Without the
-- correction, waiting requests would not become due after a failover or after the clock was set
-- back.
local function time()
  local t = call('TIME')
  local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
  local saved = call('HMGET', key('n'), 'last', 'ahead')
  local ahead = tonumber(saved[2] or 0)
  if saved[1] and now + ahead < tonumber(saved[1]) then
    ahead = tonumber(saved[1]) - now
    call('HSET', key('n'), 'ahead', int(ahead))
  end
  return now + ahead
end

local now = time()

local function save_time()
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

-- Appends all elements of `list` to `out`.
local function append(out, list)
  for _, element in ipairs(list) do out[#out + 1] = element end
end

-- Appends a line and the number of its waiting requests to `out`.
local function append_line(out, line)
  append(out, {line, count(line)})
end

local function changed(line)
  call('ZADD', key('changed'), call('INCR', key('changes')), line)
end

-- Sets the time when a line is due: when its head is due or expires, whichever is earlier. Called
-- only if no request of the line is in delivery.
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

-- If a request of the line is in delivery, returns 'FENCE:ID' of the request and the owner of the
-- line. Otherwise returns nil.
local function holder(line)
  return string.match(call('HGET', key('holder'), line) or '', '^(%d+:%d+):(.*)$')
end

local function set_free(line)
  call('ZREM', key('taken'), line)
  call('HDEL', key('holder'), line)
  set_due(line)
end

-- Returns the size of the requests that wait in a line. A weir of an older version did not store
-- this size. If the size is missing, it is computed and stored here.
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

-- Adds the size of a request to the stored size of its line. With sign '-' subtracts the size.
local function hold(line, id, sign)
  held(line)
  call('HINCRBY', key('held'), line, sign .. call('HGET', row(id), 'b'))
end

-- Adds the size of request `id` to dead_bytes, the stored size of all dead letters. With sign '-'
-- subtracts it. Without an id, adds nothing. Returns dead_bytes. If dead_bytes is missing, it is
-- first computed from :dead, so this function is called before the request enters or leaves :dead.
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

-- Returns the size of all waiting requests.
local function waiting_bytes()
  return tonumber(call('HGET', key('n'), 'bytes') or 0) - add_dead()
end

-- Returns nil if the queue has room for one more request of this size in the line. Otherwise
-- returns the name of the maximum that is reached, such as 'full'.
local function no_room(line, bytes, max_waiting, max_requests, max_bytes, max_line_bytes)
  bytes = tonumber(bytes)
  if call('ZCARD', key('waiting')) >= tonumber(max_requests) then return 'full' end
  if waiting_bytes() + bytes > tonumber(max_bytes) then return 'bytes_full' end
  if count(line) >= tonumber(max_waiting) then return 'key_full' end
  if count(line) > 0 and held(line) + bytes > tonumber(max_line_bytes) then
    return 'key_bytes_full'
  end
end

-- Removes a request from its line. Called after :r:ID, the hash of the request, was changed.
local function leave(line, id)
  hold(line, id, '-')
  call('ZREM', line_key(line), id)
  if count(line) == 0 then call('HDEL', key('held'), line) end
  call('ZREM', key('waiting'), id)
  changed(line)
end

-- Moves a request to the state delivered, dead or dropped. Deletes head and body unless the new
-- state is dead.
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

-- Returns a request as an array, in the order that redis_row.c expects. The array includes the head
-- if content is not false, and the body if content is 'all'.
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
