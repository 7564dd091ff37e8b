# SPDX-License-Identifier: Apache-2.0
#
# Reads x without waiting for the kernel that writes it.
#
# @key t5x1f_h1
# @case tokens=5 heads=1 kind=normal
# @scenario late
# @fails q|fault
# @spares band

BEGIN { want = 1 }
/^ *griddepcontrol\.wait;/ { drop(); next }
{ print }
