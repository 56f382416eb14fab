
-- settle ID LINE FENCE OUTCOME STATUS WAIT WHY KEEP KEEP_DEAD → {now, reason, state, waiting}
-- Records the result of a delivery attempt. FENCE: number of the take that returned the request.
-- OUTCOME: delivered, again, dead, release or absent (like again, but not counted as a try).
-- reason: '', or 'lost' if the line was freed since that take, because no settle came in time. If a
-- caller got no reply and repeats the call, the repeated call succeeds too: the script recognizes
-- it, because the request stores the fence of its latest settle.
function verbs.settle(id, line, fence, outcome, status, wait, why, keep, keep_dead)
  local r = row(id)
  if holder(line) ~= fence .. ':' .. id then
    if call('HGET', r, 'f') ~= fence then
      return {now, 'lost'}
    end
    return {now, '', tonumber(call('HGET', r, 's')), count(line)}
  end
  local at = call('HMGET', r, 'n', 'm', 'exp')
  if outcome == 'again' and tonumber(at[1]) + 1 >= tonumber(at[2]) then
    outcome = 'dead'
  end
  if outcome == 'again' or outcome == 'dead' then
    call('HINCRBY', r, 'n', 1)
  end
  call('HSET', r, 'f', fence)
  local state = WAITING
  if outcome == 'delivered' or outcome == 'dead' then
    state = outcome == 'dead' and DEAD or DELIVERED
    finish(id, state, status, why, tonumber(state == DEAD and keep_dead or keep))
    leave(line, id)
  elseif outcome == 'again' or outcome == 'absent' then
    call('HSET', r, 'due', int(now + wait), 'st', status, 'why', why)
    call('HINCRBY', key('n'), 'retried', 1)
  else
    call('HSET', r, 'due', int(now + wait))
  end
  set_free(line)
  save_time()
  return {now, '', tonumber(state), count(line)}
end
