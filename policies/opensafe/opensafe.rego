# METADATA
# title: OpenSafe
# description: Rules that judge an agent's tool calls. Entry points are in opensafe.gate, site settings in data.
# scope: subpackages
# schemas:
#   - input: schema.input
#   - data.opensafe.config: schema.config
package opensafe
