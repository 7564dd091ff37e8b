# SPDX-License-Identifier: Apache-2.0
#
# The reader does not wait for earlier grids before it writes: what it copies to and re-arms
# may still be in use by them.
#
# @family lamport_copy
# @scenario pdl
# @says "group":"pdl"

BEGIN { want = 1 }
/^ *griddepcontrol\.wait;$/ { drop(); next }
{ print }
