
-- Maximum number of lines in :changed. An empty line stays in :changed, so that other processes
-- learn from a poll that the line is empty. But if :changed has more lines than this maximum, empty
-- lines are removed, beginning with the line that has not changed for the longest time.
local CHANGED_MAX = 100000

local function forget(id)
  local r = call('HMGET', row(id), 't', 's', 'b')
  if r[1] then
    call('HDEL', key('tickets'), r[1])
    if r[2] == DEAD then
      call('HINCRBY', key('n'), 'bytes', '-' .. r[3])
      add_dead(id, '-')
    end
  end
  call('DEL', row(id))
  for _, set in ipairs({'ids', 'dead', 'gone', 'gone_dead'}) do
    call('ZREM', key(set), id)
  end
end

-- Deletes the oldest dead letters while the number or the size of all dead letters exceeds its
-- maximum. Deletes at most `most` dead letters. Returns the number of deleted dead letters.
local function trim(max_dead, max_bytes, most)
  local trimmed = 0
  while trimmed < most and (call('ZCARD', key('dead')) > max_dead or add_dead() > max_bytes) do
    local id = call('ZRANGE', key('gone_dead'), 0, 0)[1]
    if not id then break end
    forget(id)
    trimmed = trimmed + 1
  end
  return trimmed
end

-- tidy MAX_TICKETS MOST MAX_DEAD MAX_DEAD_BYTES → {now, forgotten, trimmed}
-- First deletes the requests in :gone and :gone_dead whose time of deletion has come. If there is
-- no such request and :gone has more than MAX_TICKETS requests, deletes the oldest requests of
-- :gone. forgotten: number of requests that this first step deleted. Then deletes the oldest dead
-- letters while their number exceeds MAX_DEAD or their size exceeds MAX_DEAD_BYTES. trimmed: number
-- of dead letters that this second step deleted. MOST: the first step deletes at most this many
-- requests of :gone and of :gone_dead each, the second step at most this many dead letters.
function verbs.tidy(max_tickets, most, max_dead, max_dead_bytes)
  local ids = call('ZRANGEBYSCORE', key('gone'), '-inf', int(now), 'LIMIT', 0, most)
  append(ids, call('ZRANGEBYSCORE', key('gone_dead'), '-inf', int(now), 'LIMIT', 0, most))
  local over = call('ZCARD', key('gone')) - tonumber(max_tickets)
  if #ids == 0 and over > 0 then
    ids = call('ZRANGE', key('gone'), 0, math.min(over, tonumber(most)) - 1)
  end
  for _, id in ipairs(ids) do forget(id) end
  local many = call('ZCARD', key('changed')) - CHANGED_MAX
  if many > 0 then
    for _, line in ipairs(call('ZRANGE', key('changed'), 0, math.min(many, 1000))) do
      if count(line) == 0 then call('ZREM', key('changed'), line) end
    end
  end
  return {now, #ids, trim(tonumber(max_dead), tonumber(max_dead_bytes), tonumber(most))}
end

return verbs[ARGV[1]](unpack(ARGV, 2))
