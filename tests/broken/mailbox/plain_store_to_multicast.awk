# SPDX-License-Identifier: Apache-2.0
#
# A plain store to the multicast address, which is undefined.
#
# @family up_proj
# @says st.global

BEGIN { want = 1 }
/multimem\.st\.relaxed\.sys\.global\.b32/ {
  replace("multimem.st.relaxed.sys.global", "st.global")
  next
}
{ print }
