-- What the site's proxy says in its own name is kept from the guest: fields that are the proxy's in any answer, and all
-- of an answer in which it wants credentials or tells an error of its own (RFC 9209; Squid says so by a field).
local said = "egress: the site's proxy does not answer for this host. Report it to the operator.\n"
local fields = {
  "proxy-authenticate", "proxy-authentication-info", "proxy-connection", "proxy-agent", "proxy-status", "proxy-support",
  "via", "x-cache", "x-cache-lookup", "x-squid-error",
}

function envoy_on_response(handle)
  local headers = handle:headers()
  local status = headers:get("proxy-status") or ""
  local own = headers:get(":status") == "407" or headers:get("x-squid-error") or status:find("error=", 1, true)
  for _, name in ipairs(fields) do
    headers:remove(name)
  end
  if not own then
    return
  end
  local others = {}
  for name in pairs(headers) do
    if name:sub(1, 1) ~= ":" then
      others[name] = true
    end
  end
  for name in pairs(others) do
    headers:remove(name)
  end
  handle:streamInfo():dynamicMetadata():set("opensafe.proxy", "refused", true)
  headers:replace(":status", "502")
  headers:replace("content-type", "text/plain")
  -- It waits for the body, and what was held before is of no use then.
  local length = handle:body(true):setBytes(said)
  handle:headers():replace("content-length", tostring(length))
end
