# SPDX-License-Identifier: Apache-2.0
#
# The producer does not wait for earlier grids: it reads a count that the reader before it
# has yet to advance.
#
# @family up_proj
# @scenario pdl

BEGIN { want = 2 } # the warps that multiply and the finisher
/^ *griddepcontrol\.wait;/ { drop(); next }
{ print }
