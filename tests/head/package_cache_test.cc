// Tests the head's store of job files.
#include "head/package_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "head/scratch_directory.h"

namespace mobula::internal::head {
namespace {

using ::testing::HasSubstr;

class PackageCacheTest : public testing::Test {
 protected:
  static std::string name_of(const std::string& bytes) {
    RunningHash hash;
    hash.add(std::as_bytes(std::span(bytes)));
    return hex_of(hash.end());
  }
  PackageCache cache(PackageLimits limits = {}) {
    return {directory / "files", [this](const std::string& name) { return needed.contains(name); },
            limits};
  }
  static ToolReply put(PackageCache& cache, const std::string& name, std::uint64_t size,
                       std::uint64_t offset, const std::string& bytes) {
    ToolRequest request;
    request.request = 5;
    request.verb = "package_put";
    request.kind = fmt::format("{} {} {}", name, size, offset);
    request.argument = bytes;
    return cache.answer(request);
  }
  static ToolReply put_all(PackageCache& cache, const std::string& bytes) {
    return put(cache, name_of(bytes), bytes.size(), 0, bytes);
  }
  static std::uint64_t have(const ToolReply& reply) {
    EXPECT_TRUE(reply.ok) << reply.text;
    return nlohmann::json::parse(reply.json).value("have", std::uint64_t{999});
  }
  static ToolReply get(PackageCache& cache, const std::string& name, std::uint64_t offset = 0) {
    ToolRequest request;
    request.verb = "package_get";
    request.kind = fmt::format("{} {}", name, offset);
    return cache.answer(request);
  }
  static std::string text(const ToolReply& reply) {
    return {reinterpret_cast<const char*>(reply.bytes.bytes().data()), reply.bytes.size()};
  }

  ScratchDirectory directory;
  std::set<std::string> needed;
};

TEST_F(PackageCacheTest, AssemblesChunksAndKeepsFileOverRestart) {
  const std::string bytes = "0123456789";
  const auto name = name_of(bytes);
  {
    auto first = cache();
    EXPECT_EQ(have(put(first, name, 10, 0, "")), 0u);
    EXPECT_EQ(have(put(first, name, 10, 0, "0123")), 4u);
    EXPECT_EQ(have(put(first, name, 10, 0, "0123")), 4u) << "said twice";
    EXPECT_EQ(have(put(first, name, 10, 7, "789")), 4u) << "not its turn";
    EXPECT_EQ(get(first, name).code, ErrorCode::not_found) << "it is not whole";
    EXPECT_EQ(have(put(first, name, 10, 4, "456789")), 10u);
    EXPECT_EQ(text(get(first, name)), bytes);
  }
  auto second = cache();
  EXPECT_EQ(have(put(second, name, 10, 0, "")), 10u) << "nothing need travel";
  EXPECT_EQ(text(get(second, name, 6)), "6789");
  EXPECT_EQ(text(get(second, name, 10)), "");
  EXPECT_EQ(text(get(second, name, 1'000)), "");
}

TEST_F(PackageCacheTest, HeadKilled_PartialUploadIsForgotten) {
  const auto name = name_of("0123456789");
  {
    auto first = cache();
    put(first, name, 10, 0, "0123");
  }
  auto second = cache();
  EXPECT_EQ(have(put(second, name, 10, 4, "456789")), 0u);
  EXPECT_EQ(have(put_all(second, "0123456789")), 10u);
}

TEST_F(PackageCacheTest, RejectsBytesThatDoNotMatchName) {
  auto all = cache();
  const auto name = name_of("good");
  EXPECT_EQ(put(all, name, 4, 0, "evil").code, ErrorCode::corrupt);
  EXPECT_EQ(get(all, name).code, ErrorCode::not_found);
  EXPECT_EQ(have(put(all, name, 4, 0, "good")), 4u);
  for (const std::string& kind : {std::string("../../x 4 0"), name + " 5000000000 0",
                                  name.substr(1) + "/ 4 0", name, std::string()}) {
    ToolRequest request;
    request.verb = "package_put";
    request.kind = kind;
    request.argument = "good";
    const auto reply = all.answer(request);
    EXPECT_TRUE(!reply.ok || kind.find("5000000000") != std::string::npos) << kind;
  }
  EXPECT_FALSE(put(all, name_of("x"), 4, 0, "longer than it is").ok);
  EXPECT_FALSE(get(all, "../files/" + name).ok);
}

TEST_F(PackageCacheTest, EvictsLeastRecentlyUsedAndKeepsNeeded) {
  PackageLimits limits;
  limits.bytes = 30;
  auto all = cache(limits);
  const std::string a(10, 'a');
  const std::string b(10, 'b');
  const std::string c(10, 'c');
  for (const auto& each : {a, b, c}) EXPECT_EQ(have(put_all(all, each)), 10u);
  const auto age = [&](const std::string& bytes, int hours) {
    std::filesystem::last_write_time(
        std::filesystem::path(directory / "files") / name_of(bytes),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  age(a, 9);
  age(b, 8);
  age(c, 7);
  needed.insert(name_of(a));
  EXPECT_EQ(have(put_all(all, std::string(10, 'd'))), 10u);
  EXPECT_TRUE(get(all, name_of(a)).ok) << "a job needs it";
  EXPECT_FALSE(get(all, name_of(b)).ok);
  EXPECT_TRUE(get(all, name_of(c)).ok);
  needed.insert(name_of(c));
  needed.insert(name_of(std::string(10, 'd')));
  const auto refused = put_all(all, std::string(10, 'e'));
  EXPECT_EQ(refused.code, ErrorCode::resource_exhausted);
  EXPECT_THAT(refused.text, HasSubstr("not ended"));
}

TEST_F(PackageCacheTest, LimitsUploadsAndReplacesStalled) {
  PackageLimits limits;
  limits.arriving = 2;
  limits.chunk_timeout = Duration(0);
  auto all = cache(limits);
  EXPECT_EQ(have(put(all, name_of("one"), 3, 0, "o")), 1u);
  EXPECT_EQ(have(put(all, name_of("two"), 3, 0, "t")), 1u) << "the first one was stuck";
  limits.chunk_timeout = std::chrono::minutes(5);
  auto strict = cache(limits);
  put(strict, name_of("one"), 3, 0, "o");
  put(strict, name_of("two"), 3, 0, "t");
  EXPECT_EQ(put(strict, name_of("six"), 3, 0, "s").code, ErrorCode::unavailable);
  EXPECT_EQ(have(put(strict, name_of("one"), 3, 1, "ne")), 3u);
  EXPECT_EQ(have(put(strict, name_of("six"), 3, 0, "six")), 3u);
}

}  // namespace
}  // namespace mobula::internal::head
