#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <mobula/mobula.h>

#include "client/twins.h"

namespace {

using mobula::detail::Entry;
using mobula::detail::FunctionKey;
using mobula::detail::Invocation;
using mobula::detail::Registry;

int increment(int x) { return x + 1; }
// The same machine code as increment.
int also_increment(int x) { return x + 1; }

class Thing {
 public:
  int get() const { return 1; }
};
class Other {
 public:
  int get() const { return 1; }
};

std::vector<FunctionKey> all_keys() {
  using namespace mobula::detail;
  std::vector<FunctionKey> keys = twins::first_keys();
  for (const auto& key : twins::second_keys()) keys.push_back(key);
  Registry& registry = Registry::instance();
  keys.push_back(registry.key_of(TaskEntry<increment, false>::entry));
  keys.push_back(registry.key_of(TaskEntry<also_increment, false>::entry));
  keys.push_back(registry.key_of(MethodEntry<Thing, &Thing::get, false>::entry));
  keys.push_back(registry.key_of(MethodEntry<Other, &Other::get, false>::entry));
  keys.push_back(registry.key_of(ConstructorEntry<Thing, TypeList<>>::entry));
  return keys;
}

std::string text_of(const std::vector<FunctionKey>& keys) {
  std::string text;
  for (const auto& key : keys) {
    text += mobula::detail::hex(key.image) + "+" + std::to_string(key.offset) + "\n";
  }
  return text;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char part[512];
  while (std::fgets(part, sizeof part, pipe) != nullptr) text += part;
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

TEST(Registry, AssignsDistinctKeysToFunctions) {
  const auto keys = all_keys();
  EXPECT_EQ(std::set<FunctionKey>(keys.begin(), keys.end()).size(), keys.size());
}

TEST(Registry, AssignsSameKeysInEveryProcess) {
  char path[4096];
  const auto length = readlink("/proc/self/exe", path, sizeof path);
  ASSERT_GT(length, 0);
  const std::string program(path, static_cast<std::size_t>(length));
  std::set<std::string> addresses;
  for (int run = 0; run < 4; ++run) {
    const std::string printed = output_of("MOBULA_TEST_PRINT_KEYS=1 '" + program + "'");
    const auto line = printed.find('\n');
    addresses.insert(printed.substr(0, line));
    EXPECT_EQ(printed.substr(line + 1), text_of(all_keys()));
  }
  if (addresses.size() == 1) GTEST_SKIP() << "addresses are not random here";
}

TEST(Registry, FindsEntriesAndRejectsUnknownKeys) {
  Registry& registry = Registry::instance();
  const auto& entry = mobula::detail::TaskEntry<increment, false>::entry;
  const FunctionKey key = registry.key_of(entry);
  EXPECT_EQ(registry.find(key), &entry);
  EXPECT_EQ(registry.find({key.image, key.offset + 1}), nullptr);
  EXPECT_EQ(registry.find({{1, 2}, key.offset}), nullptr);
  EXPECT_EQ(registry.find({}), nullptr);
}

TEST(Registry, NamesImages) {
  Registry& registry = Registry::instance();
  const auto& entry = mobula::detail::TaskEntry<increment, false>::entry;
  const FunctionKey before = registry.key_of(entry);
  ASSERT_FALSE(registry.images().empty());
  const auto base = reinterpret_cast<std::uintptr_t>(&entry) - before.offset;
  registry.name_image(base, {7, 8});
  const FunctionKey after = registry.key_of(entry);
  EXPECT_EQ(after, (FunctionKey{{7, 8}, before.offset}));
  EXPECT_EQ(registry.find(after), &entry);
  EXPECT_EQ(registry.find(before), nullptr);
  registry.name_image(base, before.image);
  EXPECT_EQ(registry.find(before), &entry);
}

TEST(Registry, RejectsInvalidCalls) {
  const auto& entry = mobula::detail::TaskEntry<increment, false>::entry;
  EXPECT_TRUE(entry.invoke(Invocation{}).error.has_value());
  const std::vector<mobula::detail::StoredValue> arguments(1);
  EXPECT_TRUE(entry.invoke(Invocation{.arguments = arguments}).error.has_value());
  const auto& method = mobula::detail::MethodEntry<Thing, &Thing::get, false>::entry;
  EXPECT_TRUE(method.invoke(Invocation{}).error.has_value());
}

TEST(Registry, DistinguishesClasses) {
  using namespace mobula::detail;
  EXPECT_NE((MethodEntry<Thing, &Thing::get, false>::entry.class_tag()),
            (MethodEntry<Other, &Other::get, false>::entry.class_tag()));
  EXPECT_EQ((MethodEntry<Thing, &Thing::get, false>::entry.class_tag()),
            (ConstructorEntry<Thing, TypeList<>>::entry.class_tag()));
}

TEST(Registry, ImageUnloaded_ForgetsItsEntries) {
  FunctionKey key;
  {
    static std::optional<Entry> passing;  // in the image, like real entries
    passing.emplace(mobula::detail::EntryMembers{.name = "passing", .results = 1});
    EXPECT_EQ(Registry::instance().entries().back(), &*passing);
    key = Registry::instance().key_of(*passing);
    EXPECT_EQ(Registry::instance().find(key), &*passing);
    passing.reset();
  }
  EXPECT_EQ(Registry::instance().find(key), nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv("MOBULA_TEST_PRINT_KEYS") != nullptr) {
    const void* somewhere = &mobula::detail::class_tag<Thing>;
    std::printf("%p\n%s", somewhere, text_of(all_keys()).c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
