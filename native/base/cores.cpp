#include "base/cores.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace trellis {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

double ratio(double quota, double period) { return quota > 0 && period > 0 ? quota / period : unlimited; }

// cpu.max of version 2 is "QUOTA PERIOD" or "max PERIOD"; version 1 has a file for each, with -1 for no limit.
double quota_of_group(const std::string& folder) {
  double quota = 0, period = 0;
  if (std::ifstream both(folder + "/cpu.max"); both >> quota >> period) return ratio(quota, period);
  std::ifstream first(folder + "/cpu.cfs_quota_us"), second(folder + "/cpu.cfs_period_us");
  return first >> quota && second >> period ? ratio(quota, period) : unlimited;
}

// The least of a group and of those that it lies in. Inside a container the group may be named from outside: then only
// the last of these, the root that the container sees, exists.
double quota_above(const std::string& mount, std::string group) {
  double least = quota_of_group(mount);
  while (!group.empty()) {
    least = std::min(least, quota_of_group(mount + group));
    const size_t parent = group.rfind('/');
    group.erase(parent == group.npos ? 0 : parent);
  }
  return least;
}

bool has_controller(const std::string& controllers, const std::string& name) {
  std::istringstream items(controllers);
  for (std::string item; std::getline(items, item, ',');)
    if (item == name) return true;
  return false;
}

}  // namespace

// Lines of /proc/self/cgroup are "NUMBER:CONTROLLERS:GROUP", with no controllers for version 2.
double core_quota(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  double least = unlimited;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty()) {
      for (const char* mount : {"", "/unified"}) least = std::min(least, quota_above(mounts + mount, group));
    } else if (has_controller(controllers, "cpu")) {
      for (const char* mount : {"/cpu", "/cpu,cpuacct"}) least = std::min(least, quota_above(mounts + mount, group));
    }
  }
  return least;
}

int available_cores() {
  int cores = int(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
#endif
  return std::max(1, int(std::min(double(cores), std::ceil(core_quota()))));
}

}  // namespace trellis
