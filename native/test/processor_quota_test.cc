// What control groups leave of the processors' time, read from files as kernels and containers show them.
#include "job/processor_quota.h"

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

#include "test/check.h"

namespace {

using namespace nbc;

// The files of a machine, in a directory that is gone at the end.
class Machine {
 public:
  explicit Machine(std::initializer_list<std::pair<const char*, const char*>> files) {
    std::string name = std::filesystem::temp_directory_path() / "nbc-quota-XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    root_ = name;
    for (const auto& [path, text] : files) {
      const std::filesystem::path file = root_ + path;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << text;
    }
  }
  ~Machine() { std::filesystem::remove_all(root_); }
  uint32_t quota() const { return job::read_processor_quota(root_); }

 private:
  std::string root_;
};

constexpr const char* kUnified = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(nothing_limits_where_nothing_says_so) {
  CHECK_EQ(Machine({}).quota(), UINT32_MAX);
  CHECK_EQ(Machine({{"/proc/self/cgroup", "0::/a\n"}, {"/proc/self/mountinfo", kUnified}}).quota(), UINT32_MAX);
  CHECK_EQ(Machine({{"/proc/self/cgroup", "0::/a\n"},
                    {"/proc/self/mountinfo", kUnified},
                    {"/sys/fs/cgroup/a/cpu.max", "max 100000\n"}})
               .quota(),
           UINT32_MAX);
  // Lines that no kernel writes.
  CHECK_EQ(
      Machine({{"/proc/self/cgroup", "0::a\n"}, {"/proc/self/mountinfo", "1 2 3 / m rw - cgroup2 x rw\n"}}).quota(),
      UINT32_MAX);
  CHECK_EQ(Machine({{"/proc/self/cgroup", "\n::\nx\n0:\n"}, {"/proc/self/mountinfo", "\n-\n1 2 - cgroup2\n"}}).quota(),
           UINT32_MAX);
}

TEST(a_container_sees_its_group_as_the_topmost) {
  for (const auto& [text, processors] : {std::pair{"400000 100000\n", 4u},
                                         {"250000 100000\n", 2u},
                                         {"50000 100000\n", 1u},
                                         {"1000 100000\n", 1u},
                                         {"90000000000000 100\n", 4'000'000'000u}}) {
    CHECK_EQ(
        Machine({{"/proc/self/cgroup", "0::/\n"}, {"/proc/self/mountinfo", kUnified}, {"/sys/fs/cgroup/cpu.max", text}})
            .quota(),
        processors);
  }
}

TEST(the_least_of_a_group_and_those_above_counts) {
  const auto with = [](const char* top, const char* middle, const char* own) {
    return Machine({{"/proc/self/cgroup", "0::/a/b\n"},
                    {"/proc/self/mountinfo", kUnified},
                    {"/sys/fs/cgroup/cpu.max", top},
                    {"/sys/fs/cgroup/a/cpu.max", middle},
                    {"/sys/fs/cgroup/a/b/cpu.max", own},
                    {"/sys/fs/cgroup/a/b/c/cpu.max", "100000 100000\n"},
                    {"/sys/fs/cgroup/d/cpu.max", "100000 100000\n"}})
        .quota();
  };
  CHECK_EQ(with("max 100000", "max 100000", "300000 100000"), 3u);
  CHECK_EQ(with("max 100000", "200000 100000", "300000 100000"), 2u);
  CHECK_EQ(with("800000 100000", "max 100000", "max 100000"), 8u);
}

constexpr const char* kMounts =
    "25 20 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "31 25 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "32 25 0:28 /docker/xyz /sys/fs/cgroup/cpu,cpuacct rw master:9 - cgroup cgroup rw,cpu,cpuacct\n";

TEST(version_1_has_a_hierarchy_for_it) {
  const auto with = [](const char* group, const char* quota) {
    return Machine({{"/proc/self/cgroup", group},
                    {"/proc/self/mountinfo", kMounts},
                    {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", quota},
                    {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"},
                    {"/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "50000\n"},
                    {"/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "50000\n"}})
        .quota();
  };
  CHECK_EQ(with("9:cpuset:/docker/xyz\n4:cpuacct,cpu:/docker/xyz\n", "200000\n"), 4u);
  CHECK_EQ(with("4:cpuacct,cpu:/docker/xyz/inner\n0::/\n", "200000\n"), 1u);
  CHECK_EQ(with("4:cpuacct,cpu:/docker/xyz2\n", "200000\n"), 4u);
  CHECK_EQ(with("4:cpuacct,cpu:/elsewhere\n", "100000\n"), 2u);
  CHECK_EQ(with("4:cpuacct,cpu:/docker/xyz\n", "-1\n"), UINT32_MAX);
  CHECK_EQ(with("9:cpuset,cpuacct:/docker/xyz\n", "200000\n"), UINT32_MAX);
}

// Such as a hierarchy of version 2 that shows a part only, beside the one with the group.
TEST(of_several_mounts_the_one_that_has_the_group_counts) {
  constexpr const char* kPart = "29 20 0:26 /other /mnt/other rw - cgroup2 cgroup2 rw\n";
  const auto with = [](const char* group, const std::string& mounts) {
    return Machine({{"/proc/self/cgroup", group},
                    {"/proc/self/mountinfo", mounts.c_str()},
                    {"/mnt/other/cpu.max", "100000 100000\n"},
                    {"/sys/fs/cgroup/a/cpu.max", "400000 100000\n"}})
        .quota();
  };
  for (const std::string& mounts : {std::string(kPart) + kUnified, std::string(kUnified) + kPart})
    CHECK_EQ(with("0::/a\n", mounts), 4u);
  CHECK_EQ(with("0::/other\n", kPart), 1u);
}

}  // namespace

TEST_MAIN(60)
