# SPDX-License-Identifier: Apache-2.0
#
# The first stage waits for 16 bytes that nobody sends.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails fault
# @says no-progress

BEGIN { want = 1 }
/mbarrier\.arrive\.expect_tx.*, 16384;/ && ++seen == 1 { replace("16384", "16400"); next }
{ print }
