# SPDX-License-Identifier: Apache-2.0
#
# The producer has no fence before it stores: that this rank emptied the words of the step
# before does not happen before what the others do when they see these.
#
# @family up_proj
# @says unordered-stores

BEGIN { want = 1 }
/fence\.release\.sys;/ { drop(); next }
{ print }
