# SPDX-License-Identifier: Apache-2.0
#
# The reader has no fence behind its last poll: what the ranks did before they stored does
# not happen before what this rank stores next.
#
# @family lamport_copy
# @says unordered-stores

BEGIN { want = 1 }
/^ *fence\.acquire\.sys;/ { drop(); next }
{ print }
