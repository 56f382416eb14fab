
-- Returns the position of a request in its line, and 1 if the request is in delivery, otherwise 0.
-- Returns 0, 0 if the request does not wait.
local function position_of(id, line, state)
  if state ~= WAITING then return 0, 0 end
  local taken = string.match(holder(line) or '', ':(%d+)$') == tostring(id)
  return (call('ZRANK', line_key(line), id) or 0) + 1, taken and 1 or 0
end

local function show(id, content)
  local r = call('HMGET', row(id), 'k', 's')
  local position, taken = position_of(id, r[1], r[2])
  return position, taken, read(id, content)
end

-- ticket HASH → {now, position, taken, row}, or {now} if there is no such ticket
-- HASH: SHA-256 of the ticket. taken: 1 if the request is in delivery, otherwise 0. row: array with
-- the fields of the request, made by read().
function verbs.ticket(ticket)
  local id = call('HGET', key('tickets'), ticket)
  if not id then return {now} end
  local position, taken, r = show(id, false)
  return {now, position, taken, r}
end

local function drop(id, line, state, keep)
  if state == DEAD then
    add_dead(id, '-')
    call('ZREM', key('dead'), id)
    call('ZREM', key('gone_dead'), id)
  end
  finish(id, DROPPED, 0, 'dropped by an operator', keep)
  if state == WAITING then
    leave(line, id)
    if not is_taken(line) then set_due(line) end
  end
end

local function retry(id, line, state)
  local r = row(id)
  call('HSET', r, 'due', int(now))
  if state == DEAD then
    call('HSET', r, 's', WAITING, 'n', 0, 'exp', int(now + call('HGET', r, 'a')))
    call('HDEL', r, 'done')
    add_dead(id, '-')
    hold(line, id, '')
    call('ZREM', key('dead'), id)
    call('ZREM', key('gone_dead'), id)
    call('ZADD', key('waiting'), id, id)
    call('ZADD', line_key(line), id, id)
    changed(line)
  end
  if not is_taken(line) then set_due(line) end
end

-- Retries or drops a waiting or dead request. Returns true if the request was changed. If a dead
-- request stays dead because the queue is full, returns false and the name of the reached maximum,
-- such as 'full'.
local function change(verb, id, line, state, keep, ...)
  local _, taken = position_of(id, line, state)
  if (state ~= WAITING and state ~= DEAD) or taken == 1 then return false end
  if verb == 'drop' then
    drop(id, line, state, keep)
    return true
  end
  local why = state == DEAD and no_room(line, call('HGET', row(id), 'b'), math.huge, ...)
  if not why then retry(id, line, state) end
  return not why, why
end

-- list|show|retry|drop RULE LINE STATES ID AFTER MAX KEEP MAX_REQUESTS MAX_BYTES MAX_LINE_BYTES
--   → {now, last, end, count, left, why, line, waiting, …, '', position, taken, row, …}
-- STATES: the digits of the states to select. last: the highest id that was looked at, or 0 if no
-- page follows. end: the highest id of the queue. count: number of requests that were found or
-- changed. left: number of requests that stay dead because the queue is full. why: name of the
-- maximum, such as 'full', that kept the first of these requests dead. Each pair (line, waiting) is
-- a changed line and the number of its requests. After '' follow the requests that list or show
-- found, with three elements for each request. taken: 1 if the request is in delivery, otherwise 0.
-- row: array with the fields of the request, made by read().
local function page(verb, rule, line, states, id, after, max, keep, ...)
  local ids = {id}
  if id == '0' then
    ids = call('ZRANGEBYSCORE', key('ids'), '(' .. after, '+inf', 'LIMIT', 0, max)
  end
  local last = id == '0' and #ids == tonumber(max) and tonumber(ids[#ids]) or 0
  local reported, shown, found, left, why = {}, {}, 0, 0, ''
  for _, one in ipairs(ids) do
    local r = call('HMGET', row(one), 'k', 'rule', 's')
    if r[3] and (rule == '' or rule == r[2]) and (line == '' or line == r[1])
        and (states == '' or string.find(states, r[3], 1, true)) then
      if verb == 'list' or verb == 'show' then
        local position, taken, content = show(one, verb == 'show' and 'all' or 'head')
        append(shown, {position, taken, content})
        found = found + 1
      else
        local changed, bound = change(verb, one, r[1], r[3], tonumber(keep), ...)
        if changed then
          found = found + 1
          append_line(reported, r[1])
        elseif bound then
          why = left == 0 and bound or why
          left = left + 1
        end
      end
    end
  end
  if #reported > 0 then save_time() end
  local out = {now, last, tonumber(call('GET', key('seq')) or 0), found, left, why}
  append(out, reported)
  append(out, {''})
  append(out, shown)
  return out
end

for _, verb in ipairs({'list', 'show', 'retry', 'drop'}) do
  verbs[verb] = function(...) return page(verb, ...) end
end

-- stats → {now, waiting, taken, dead, bytes, lines, tickets, oldest, put, delivered, retried, dead,
-- dropped}
-- The elements from waiting to oldest describe the queue as it is now. taken: number of requests in
-- delivery. oldest: age of the oldest request. The elements from put on are totals since the queue
-- was created. So the first `dead` is the number of dead letters now, the second a total.
function verbs.stats()
  local n = call('HMGET', key('n'), 'bytes', 'put', 'delivered', 'retried', 'dead', 'dropped')
  local oldest = call('ZRANGE', key('waiting'), 0, 0)[1]
  local taken = call('ZCARD', key('taken'))
  local age = oldest and now - tonumber(call('HGET', row(oldest), 'at')) or 0
  return {now, call('ZCARD', key('waiting')) - taken, taken, call('ZCARD', key('dead')),
    tonumber(n[1] or 0), call('ZCARD', key('due')) + taken, call('ZCARD', key('gone')), age,
    tonumber(n[2] or 0), tonumber(n[3] or 0), tonumber(n[4] or 0), tonumber(n[5] or 0),
    tonumber(n[6] or 0)}
end

-- poll AFTER → {now, last, line, waiting, …}
-- Returns the lines whose latest change has a number above AFTER. If AFTER is below 0, returns all
-- lines that have waiting requests. waiting: number of requests in the line. last: the value of
-- AFTER for the next poll.
function verbs.poll(after)
  local lines
  local last = tonumber(call('GET', key('changes')) or 0)
  if tonumber(after) < 0 then
    lines = call('ZRANGE', key('due'), 0, -1)
    append(lines, call('ZRANGE', key('taken'), 0, -1))
  else
    local found = call('ZRANGEBYSCORE', key('changed'), '(' .. after, '+inf', 'WITHSCORES', 'LIMIT',
      0, 1000)
    lines = {}
    for i = 1, #found, 2 do lines[#lines + 1] = found[i] end
    if #found == 2000 then last = tonumber(found[#found]) end
  end
  local out = {now, last}
  for _, line in ipairs(lines) do append_line(out, line) end
  return out
end
