// How many cores this process may use.
#pragma once

#include <string>

namespace trellis {

// Cores' worth of time that control groups (cgroups of version 1 and 2) give the process, which may be a fraction;
// infinity if there is no limit. `root` is the root of the file system, or of faked files.
double core_quota(const std::string& root = "");

// The cores that the scheduler may choose from, or fewer if the quota is less. At least 1.
int available_cores();

}  // namespace trellis
