// Files of a job: packed, rejected, and unpacked entries.
#include "deploy/job_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mobula::internal::deploy {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class JobFilesTest : public testing::Test {
 protected:
  JobFilesTest() {
    std::string pattern = (fs::temp_directory_path() / "job-files-XXXXXX").string();
    base = ::mkdtemp(pattern.data());
    fs::create_directory(at("in"));
  }
  ~JobFilesTest() override { fs::remove_all(base); }

  fs::path at(const std::string& name) const { return fs::path(base) / name; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(at(name).parent_path());
    std::ofstream(at(name), std::ios::binary) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(at(name), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  Result<JobFiles> pack(std::uint64_t max_bytes = max_job_files_bytes) const {
    return pack_job_files({at("in").string()}, max_bytes);
  }
  std::string refusal(std::uint64_t max_bytes = max_job_files_bytes) const {
    const auto packed = pack(max_bytes);
    return packed ? "none" : packed.error().text;
  }
  static std::string bytes_of(const JobFiles& files) {
    std::string bytes(files.size_bytes, '\0');
    EXPECT_EQ(::pread(files.file.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
  // The error of unpacking these bytes.
  std::string unpacked(const std::string& bytes) {
    write("packed", bytes);
    const Fd file(::open(at("packed").c_str(), O_RDONLY));
    fs::remove_all(at("out"));
    const auto done = unpack_job_files(file.get(), at("out").string());
    return done ? "none" : done.error().text;
  }

  std::string base;
};

TEST_F(JobFilesTest, ShipsNamedLibraryWithDependencies) {
  write("plugin.so", "a library of ours");
  const auto packed = pack_job_files({{}, {"/bin/sh"}, {at("plugin.so").string()}});
  ASSERT_TRUE(packed) << packed.error().text;
  EXPECT_EQ(unpacked(bytes_of(*packed)), "none");
  EXPECT_EQ(read("out/lib/plugin.so"), "a library of ours");
  EXPECT_TRUE(fs::exists(at("out/bin/sh")));
  const auto twice = pack_job_files({{}, {}, {at("plugin.so").string(), at("plugin.so").string()}});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().text, HasSubstr("another library that travels has the same name"));
  const auto none = pack_job_files({{}, {}, {at("nowhere.so").string()}});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text, HasSubstr("nowhere.so"));
}

TEST_F(JobFilesTest, RestoresDirectoryAsItWas) {
  write("in/main.py", "print()\n");
  write("in/empty", "");
  write("in/deep/er/data", std::string(600'000, 'd'));
  write("in/run.sh", "#!/bin/sh\n");
  fs::permissions(at("in/run.sh"), fs::perms::owner_all);
  fs::create_directory(at("in/nothing"));
  fs::create_symlink("../main.py", at("in/deep/link"));
  fs::create_directory_symlink("deep/er", at("in/short"));
  auto files = pack();
  ASSERT_TRUE(files) << files.error().text;
  ASSERT_TRUE(unpack_job_files(files->file.get(), at("out").string()));
  EXPECT_EQ(read("out/work/main.py"), "print()\n");
  EXPECT_EQ(read("out/work/deep/link"), "print()\n");
  EXPECT_EQ(read("out/work/short/data").size(), 600'000u);
  EXPECT_EQ(fs::file_size(at("out/work/empty")), 0u);
  EXPECT_TRUE(fs::is_directory(at("out/work/nothing")));
  EXPECT_EQ(::access(at("out/work/run.sh").c_str(), X_OK), 0);
  EXPECT_NE(::access(at("out/work/main.py").c_str(), X_OK) == 0, true);
  struct stat seen {};
  ASSERT_EQ(::stat(at("out").c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 0777U, 0700U);
  EXPECT_FALSE(unpack_job_files(files->file.get(), at("out").string())) << "it is there already";
}

TEST_F(JobFilesTest, SameFiles_HaveSameBytes) {
  write("in/b", "2");
  write("in/a", "1");
  const auto first = pack();
  ASSERT_TRUE(first);
  fs::remove_all(at("in"));
  write("in/a", "1");
  write("in/b", "2");
  fs::last_write_time(at("in/a"), fs::file_time_type::clock::now() - std::chrono::hours(9));
  fs::permissions(at("in/a"), fs::perms::owner_read | fs::perms::owner_write);
  const auto second = pack();
  ASSERT_TRUE(second);
  EXPECT_EQ(first->hash, second->hash);
  EXPECT_EQ(bytes_of(*first), bytes_of(*second));
  write("in/b", "3");
  EXPECT_NE(pack()->hash, first->hash);
}

TEST_F(JobFilesTest, OmitsIgnoredFiles) {
  write("in/.git/config", "x");
  write("in/keep.o", "x");
  write("in/deep/drop.o", "x");
  write("in/build/large", "x");
  write("in/data/raw/1", "x");
  write("in/data/fine", "x");
  write("in/.mobulaignore", "# what need not travel\n*.o\nbuild/\n/data/raw\n");
  auto files = pack();
  ASSERT_TRUE(files) << files.error().text;
  ASSERT_TRUE(unpack_job_files(files->file.get(), at("out").string()));
  for (const char* gone : {".git", "keep.o", "deep/drop.o", "build", "data/raw", ".mobulaignore"}) {
    EXPECT_FALSE(fs::exists(at(std::string("out/work/") + gone))) << gone;
  }
  EXPECT_TRUE(fs::exists(at("out/work/data/fine")));
  write("in/.mobulaignore", "a\n!b\n");
  EXPECT_THAT(refusal(), HasSubstr(".mobulaignore:2"));
}

TEST_F(JobFilesTest, NamesFileThatIsTooLarge) {
  write("in/small", "x");
  write("in/deep/large", std::string(3'000, 'x'));
  const auto why = refusal(2'000);
  EXPECT_THAT(why, HasSubstr("in/deep/large"));
  EXPECT_THAT(why, HasSubstr(".mobulaignore"));
  EXPECT_EQ(pack(2'000).error().code, ErrorCode::resource_exhausted);
}

TEST_F(JobFilesTest, RejectsLinksAndSpecialFilesByName) {
  const auto refused_alone = [&](const std::string& name) {
    const std::string why = refusal();
    fs::remove(at("in/" + name));
    return why;
  };
  fs::create_symlink("/etc/passwd", at("in/absolute"));
  EXPECT_THAT(refused_alone("absolute"), HasSubstr("in/absolute: is a link to /etc/passwd"));
  fs::create_symlink("../secret", at("in/out"));
  EXPECT_THAT(refused_alone("out"), HasSubstr("in/out: is a link"));
  fs::create_directory(at("in/d"));
  fs::create_symlink("../d/../../x", at("in/d/winding"));
  EXPECT_THAT(refused_alone("d/winding"), HasSubstr("plain path"));
  ASSERT_EQ(::mkfifo(at("in/pipe").c_str(), 0600), 0);
  EXPECT_THAT(refused_alone("pipe"), HasSubstr("neither a file"));
  write("in/new\nline", "x");
  EXPECT_THAT(refused_alone("new\nline"),
              HasSubstr("in/new?line: its name has control characters"));
  EXPECT_EQ(refusal(), "none");
  EXPECT_THAT(pack_job_files({.programs = {at("nobody").string()}}).error().text,
              HasSubstr("nobody"));
  EXPECT_THAT(pack_job_files({.programs = {base}}).error().text, HasSubstr("no file"));
  write("other/prog", "x");
  write("in/prog", "x");
  EXPECT_THAT(pack_job_files({.programs = {at("in/prog").string(), at("other/prog").string()}})
                  .error()
                  .text,
              HasSubstr("same name"));
}

TEST_F(JobFilesTest, ShipsProgramWithLibraries) {
  auto files = pack_job_files({.programs = {fs::read_symlink("/proc/self/exe").string()}});
  ASSERT_TRUE(files) << files.error().text;
  ASSERT_TRUE(unpack_job_files(files->file.get(), at("out").string()));
  EXPECT_EQ(::access((at("out/bin") / fs::read_symlink("/proc/self/exe").filename()).c_str(), X_OK),
            0);
  bool standard = false;
  for (const auto& each : fs::directory_iterator(at("out/lib"))) {
    const auto name = each.path().filename().string();
    EXPECT_FALSE(name.starts_with("libc.so")) << name;
    standard = standard || name.starts_with("libstdc++");
  }
  EXPECT_TRUE(standard);
  EXPECT_FALSE(fs::exists(at("out/work")));
}

TEST_F(JobFilesTest, RejectsForgedArchives) {
  write("in/a", "1");
  fs::create_symlink("a", at("in/l"));
  const std::string good = bytes_of(*pack());
  ASSERT_EQ(unpacked(good), "none");
  for (std::size_t size = 0; size < good.size(); ++size)
    ASSERT_NE(unpacked(good.substr(0, size)), "none") << size;
  const std::string begin = "mobula job files 1\n";
  const auto refuses = [&](const std::string& entries) {
    EXPECT_NE(unpacked(begin + entries + "e 0 0\n"), "none") << entries;
    EXPECT_FALSE(fs::exists(at("escaped"))) << entries;
  };
  refuses("f 10 1\n../escapedx");
  refuses("f 8 1\n/escapedx");
  refuses("d 4 0\nworkf 15 1\nwork/../escapedx");
  refuses("d 4 0\nworkl 6 10\nwork/l../escapedx");
  refuses("d 4 0\nworkl 6 2\nwork/l..f 14 1\nwork/l/escapedx");
  refuses("d 4 0\nworkl 6 1\nwork/l.d 7 0\nwork/l/f 1 1\nax");
  refuses("d 4 0\nworkl 6 1\nwork/l.l 8 13\nwork/l/m../../escapedd 18 0\nwork/l/m/escaped/x");
  refuses("f 1 1\naxf 1 1\nax");
  refuses("f 2 1\na\nx");
  refuses("b 1 0\na");
  refuses("f 99999 1\na");
  refuses("f 1 999999999999\na");
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ 0x2e);
    static_cast<void>(unpacked(changed));
    EXPECT_FALSE(fs::exists(at("escaped"))) << i;
  }
}

}  // namespace
}  // namespace mobula::internal::deploy
