// Recording files: written steps are read again, and files that no recorder wrote are rejected.
#include "protocol/recording/recording.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "protocol/recording/recorder.h"

namespace mobula::internal {
namespace {

namespace fs = std::filesystem;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class Recording : public ::testing::Test {
 protected:
  Recording() {
    std::string pattern = "/tmp/mobula-recording-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~Recording() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  static RecordingHeader header() {
    RecordingHeader header;
    header.core = "agent";
    header.role = "driver_agent";
    header.incarnation = {1, 2};
    header.options = bytes_of("options");
    return header;
  }
  std::unique_ptr<Recorder> start(std::uint64_t limit_bytes = 1u << 20) {
    auto recorder = Recorder::start({directory_, limit_bytes}, header());
    EXPECT_TRUE(recorder.ok());
    path_ = (*recorder)->path();
    return std::move(*recorder);
  }
  std::string written() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // Reads the steps of a file with these bytes; stores the reader's ending in `ending_`.
  Result<std::vector<RecordedStep>> read(const std::string& bytes) {
    path_ = directory_ + "/copy";
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return read();
  }
  Result<std::vector<RecordedStep>> read() {
    auto reader = RecordingReader::open(path_);
    if (!reader) return reader.error();
    std::vector<RecordedStep> steps;
    while (true) {
      auto step = reader->next();
      if (!step) return step.error();
      if (!*step) break;
      steps.push_back(std::move(**step));
    }
    ending_ = reader->ending();
    return steps;
  }
  static void step(Recorder& recorder, std::int64_t ns, std::string_view event,
                   const std::vector<Bytes>& commands) {
    recorder.took(Time::from_ns(ns), bytes_of(event));
    recorder.gave(commands);
  }

  std::string directory_;
  std::string path_;
  std::string ending_;
};

TEST_F(Recording, ReadsWhatWasWritten) {
  auto recorder = start();
  step(*recorder, 5, "first", {});
  step(*recorder, 7, "", {bytes_of("one"), {}, bytes_of("two")});
  recorder.reset();
  const auto reader = RecordingReader::open(path_);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->header().core, "agent");
  EXPECT_EQ(reader->header().role, "driver_agent");
  EXPECT_EQ(reader->header().pid, ::getpid());
  EXPECT_EQ(reader->header().options, bytes_of("options"));
  const auto steps = read();
  ASSERT_TRUE(steps.ok()) << steps.error().text;
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].at.ns(), 5);
  EXPECT_EQ((*steps)[0].event, bytes_of("first"));
  EXPECT_EQ((*steps)[0].commands, std::vector<Bytes>{});
  EXPECT_EQ((*steps)[1].event, Bytes{});
  EXPECT_EQ((*steps)[1].commands, (std::vector<Bytes>{bytes_of("one"), {}, bytes_of("two")}));
  EXPECT_EQ(ending_, "");
}

TEST_F(Recording, CreatesPrivateFileNamedByCore) {
  const auto recorder = start();
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(fs::path(path_).filename(),
            "driver_agent-" + std::to_string(::getpid()) + "-" + hex_of({1, 2}) + ".mobrec");
}

// A kill at any time leaves no recording or a readable one.
TEST_F(Recording, File_IsReadableFromTheBeginning) {
  const auto recorder = start();
  const auto steps = read();
  ASSERT_TRUE(steps.ok());
  EXPECT_TRUE(steps->empty());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory_))
    names.push_back(entry.path().filename());
  EXPECT_EQ(names, std::vector<std::string>{fs::path(path_).filename()});
}

TEST_F(Recording, NoDirectory_RecordsNothing) {
  const auto recorder = Recorder::start({}, header());
  ASSERT_TRUE(recorder.ok());
  EXPECT_EQ(*recorder, nullptr);
}

TEST_F(Recording, WritesEventBeforeCoreHandlesIt) {
  auto recorder = start();
  step(*recorder, 1, "first", {bytes_of("done")});
  recorder->took(Time::from_ns(2), bytes_of("aborts"));
  const auto steps = read();
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].commands, std::vector<Bytes>{bytes_of("done")});
  EXPECT_EQ((*steps)[1].event, bytes_of("aborts"));
  EXPECT_FALSE((*steps)[1].commands.has_value());
  EXPECT_NE(ending_, "");
}

TEST_F(Recording, FileCut_YieldsWholeStepsAndReportsIt) {
  auto recorder = start();
  const std::size_t begin = written().size();
  std::vector<std::size_t> ends;  // ends of complete steps
  for (int i = 0; i < 3; ++i) {
    step(*recorder, i, "event", {bytes_of("command")});
    recorder->flush();
    ends.push_back(written().size());
  }
  const std::string whole = written();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto steps = read(whole.substr(0, size));
    ASSERT_EQ(steps.ok(), size >= begin) << size;
    if (!steps) continue;
    std::size_t expected = 0;
    for (const std::size_t end : ends) expected += size >= end ? 1 : 0;
    std::size_t answered = 0;
    for (const auto& each : *steps) answered += each.commands ? 1 : 0;
    EXPECT_EQ(answered, expected) << size;
    const bool between = size == begin || std::ranges::find(ends, size) != ends.end();
    EXPECT_EQ(ending_.empty(), between) << size << " " << ending_;
  }
}

TEST_F(Recording, RejectsOtherVersionsByName) {
  RecordingHeader other = header();
  other.format = recording_format + 1;
  const auto text = [](const Bytes& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto format = read(text(recording_begin(other)));
  ASSERT_FALSE(format.ok());
  EXPECT_EQ(format.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(format.error().text.find("format"), std::string::npos) << format.error().text;
  other = header();
  other.protocol = protocol_version + 7;
  const auto protocol = read(text(recording_begin(other)));
  ASSERT_FALSE(protocol.ok());
  EXPECT_EQ(protocol.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(protocol.error().text.find("protocol"), std::string::npos) << protocol.error().text;
}

TEST_F(Recording, RejectsFileThatIsNoRecording) {
  for (const std::string& bytes :
       {std::string(), std::string("SQLite format 3"), std::string("MOBREC\r\n\0\0\0\0H", 13),
        std::string("MOBREC\r\n\xff\xff\xff\xffH", 13)}) {
    EXPECT_FALSE(read(bytes).ok());
  }
  auto recorder = start();
  step(*recorder, 1, "event", {});
  recorder.reset();
  std::string unknown_kind = written();
  unknown_kind[unknown_kind.size() - 1] = '?';  // kind byte of the empty list of commands
  const auto steps = read(unknown_kind);
  ASSERT_FALSE(steps.ok());
  EXPECT_EQ(steps.error().code, ErrorCode::corrupt);
}

TEST_F(Recording, LimitReached_StopsWithReason) {
  constexpr std::uint64_t limit = 2000;
  auto recorder = start(limit);
  for (int i = 0; i < 100; ++i) step(*recorder, i, "some event", {bytes_of("a command")});
  EXPECT_FALSE(recorder->recording());
  EXPECT_LE(written().size(), limit);
  const auto steps = read();
  ASSERT_TRUE(steps.ok()) << steps.error().text;
  EXPECT_GT(steps->size(), 5u);
  EXPECT_NE(ending_.find("2000"), std::string::npos) << ending_;
}

TEST_F(Recording, CommandsBeyondLimit_EndRecording) {
  auto recorder = start(2000);
  step(*recorder, 1, "small", {});
  step(*recorder, 2, "event", {Bytes(3000)});
  EXPECT_FALSE(recorder->recording());
  const auto steps = read();
  ASSERT_TRUE(steps.ok()) << steps.error().text;
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_FALSE(steps->back().commands.has_value());
  EXPECT_NE(ending_.find("limit"), std::string::npos) << ending_;
}

TEST_F(Recording, ReadsDirectoryAndLimitFromEnvironment) {
  ::setenv(record_variable, "relative", 1);
  ::setenv(record_limit_variable, "4096", 1);
  const auto options = record_options_from_environment();
  ::setenv(record_limit_variable, "4 KiB", 1);
  const auto wrong = record_options_from_environment();
  ::unsetenv(record_variable);
  ::unsetenv(record_limit_variable);
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(fs::path(options->directory).is_absolute());
  EXPECT_EQ(options->limit_bytes, 4096u);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(record_options_from_environment()->directory.empty());
}

}  // namespace
}  // namespace mobula::internal
