#include "tune/report/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "sample_experiment.h"

namespace mobula::internal::tune {
namespace {

// The records of a file; checks framing and checksums.
std::vector<std::string> records_of(const std::string& bytes) {
  const auto crc_at = [&](std::size_t at) {
    std::uint32_t crc = 0;
    std::memcpy(&crc, bytes.data() + at, sizeof(crc));
    crc -= 0xa282ead8u;
    return (crc << 15) | (crc >> 17);
  };
  std::vector<std::string> records;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    EXPECT_EQ(crc_at(at + 8), crc32c(bytes.substr(at, 8)));
    if (at + 16 + length > bytes.size()) {
      ADD_FAILURE() << "record at " << at << " has " << length << " bytes";
      return records;
    }
    records.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(crc_at(at + 12 + length), crc32c(records.back()));
    at += 16 + length;
  }
  return records;
}

TEST(EventFile, ChecksumEqualsPublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(EventFile, EncodesScalarsAsTensorBoardDoes) {
  // Event{wall_time: 1.5, step: 300, summary: {value: {tag: "a", simple_value: 0.5}}}
  const auto records = records_of(scalar_record(1.5, 300, {{"a", 0.5}, {"note", "text"}}));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0], std::string("\x09\0\0\0\0\0\0\xf8\x3f"
                                    "\x10\xac\x02"
                                    "\x2a\x0a\x0a\x08\x0a\x01"
                                    "a\x15\0\0\0\x3f",
                                    24));
}

TEST(EventFile, WritesOneFilePerTrial) {
  const SampleExperiment sample({.trials = 3, .reports = 16});
  auto reader = ExperimentReader::open(sample.location).value();
  const std::string directory = sample.location.storage + "/board";
  ASSERT_TRUE(export_tensorboard(reader, directory).ok());
  for (TrialNumber trial = 0; trial < 3; ++trial) {
    const auto files =
        std::filesystem::directory_iterator(directory + fmt::format("/trial-{:06}", trial));
    std::ifstream file(files->path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(records_of(bytes).size(), reader.reports(trial).value().size() + 1);
    EXPECT_NE(records_of(bytes)[0].find("brain.Event:2"), std::string::npos);
  }
}

}  // namespace
}  // namespace mobula::internal::tune
