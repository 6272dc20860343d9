// SPDX-License-Identifier: Apache-2.0
#include "compile/protocol.h"
