-- Takes credentials that were put into a request out of its answer: headers, trailers, and a body as far as one piece of it
-- shows them. Each is masked by as many asterisks, so that no length changes.
local told = "envoy.filters.http.ext_authz"

local function masked(text, secrets)
  for _, secret in ipairs(secrets) do
    local first, last = string.find(text, secret, 1, true)
    while first do
      text = string.sub(text, 1, first - 1) .. string.rep("*", #secret) .. string.sub(text, last + 1)
      first, last = string.find(text, secret, last + 1, true)
    end
  end
  return text
end

local function mask(headers, secrets)
  local found, values = {}, {}
  for key, value in pairs(headers) do
    values[key] = values[key] or {}
    local clean = masked(value, secrets)
    table.insert(values[key], clean)
    if clean ~= value then
      found[key] = true
    end
  end
  for key in pairs(found) do
    headers:remove(key)
    for _, value in ipairs(values[key]) do
      headers:add(key, value)
    end
  end
end

function envoy_on_response(handle)
  local metadata = handle:streamInfo():dynamicMetadata()
  local answer = metadata:get(told)
  local secrets = answer and answer["secrets"]
  if secrets == nil or #secrets == 0 then
    return
  end
  metadata:set(told, "secrets", {})
  mask(handle:headers(), secrets)
  for piece in handle:bodyChunks() do
    local text = piece:getBytes(0, piece:length())
    local clean = masked(text, secrets)
    if clean ~= text then
      piece:setBytes(clean)
    end
  end
  local trailers = handle:trailers()
  if trailers ~= nil then
    mask(trailers, secrets)
  end
end
