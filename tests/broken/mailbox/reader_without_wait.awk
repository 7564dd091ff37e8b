# SPDX-License-Identifier: Apache-2.0
#
# A reader that should do everything behind its wait has none, while producers trigger at
# entry: it reads a count that the reader before it has yet to advance.
#
# @family lamport_copy
# @scenario pdl_first

BEGIN { want = 2 }
/^ *@wait_first griddepcontrol\.wait;/ { drop(); next }
/^ *griddepcontrol\.wait;$/ { drop(); next }
{ print }
