#include "job/processor_quota.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace nbc::job {
namespace {

// A hierarchy of control groups that limits processors' time.
struct Hierarchy {
  bool unified;       // version 2
  std::string group;  // of this process
};

// Where a part of a hierarchy is seen.
struct Mount {
  std::string part;  // its topmost group; empty: that of the hierarchy
  std::string path;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& text, const std::string& name) {
  const std::vector<std::string> parts = split(text, ',');
  return std::find(parts.begin(), parts.end(), name) != parts.end();
}

// "ID:CONTROLLERS:GROUP"; version 2 has no controllers there. Both can be in use, for different resources.
std::vector<Hierarchy> hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty() || lists(controllers, "cpu"))
      found.push_back({controllers.empty(), line.substr(second + 1)});
  }
  return found;
}

// Whether the group is there, below the topmost one.
bool shows(const Mount& mount, const Hierarchy& hierarchy) {
  return hierarchy.group == mount.part || hierarchy.group.starts_with(mount.part + "/");
}

// "ID PARENT DEVICE PART PATH OPTIONS [MORE...] - TYPE SOURCE OPTIONS". A container may see its own group as the
// topmost one, under a name of the outside: then any mount will do.
std::optional<Mount> mount_of(const Hierarchy& hierarchy, const std::string& root) {
  std::optional<Mount> found;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    if (hierarchy.unified ? dash[1] != "cgroup2" : dash[1] != "cgroup" || !lists(dash[3], "cpu")) continue;
    const Mount mount{words[3] == "/" ? "" : words[3], words[4]};
    if (shows(mount, hierarchy)) return mount;
    if (!found) found = mount;
  }
  return found;
}

std::string directory_of(const Hierarchy& hierarchy, const Mount& mount) {
  if (!shows(mount, hierarchy) || hierarchy.group == "/") return mount.path;
  return mount.path + hierarchy.group.substr(mount.part.size());
}

// Microseconds in a period. What says "max", or -1, has no limit.
uint32_t quota_of(double quota, double period) {
  if (quota <= 0 || period <= 0) return UINT32_MAX;
  return static_cast<uint32_t>(std::clamp(quota / period, 1.0, 4e9));
}

uint32_t quota_in(const std::string& directory, bool unified) {
  double quota = 0, period = 0;
  if (unified) {
    std::ifstream(directory + "/cpu.max") >> quota >> period;
  } else {
    std::ifstream(directory + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(directory + "/cpu.cfs_period_us") >> period;
  }
  return quota_of(quota, period);
}

}  // namespace

uint32_t read_processor_quota(const std::string& root) {
  uint32_t least = UINT32_MAX;
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    const std::optional<Mount> mount = mount_of(hierarchy, root);
    if (!mount) continue;
    std::string directory = directory_of(hierarchy, *mount);
    while (true) {
      least = std::min(least, quota_in(root + directory, hierarchy.unified));
      if (directory.size() <= mount->path.size()) break;
      directory.erase(directory.rfind('/'));
    }
  }
  return least;
}

uint32_t processor_quota() {
  static const uint32_t quota = read_processor_quota("");
  return quota;
}

}  // namespace nbc::job
