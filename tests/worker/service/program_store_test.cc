// Stored files of programs from other nodes.
#include "worker/program_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "protocol/program/program_files.h"

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

class ProgramStoreTest : public ::testing::Test {
 protected:
  ProgramStoreTest() {
    char name[] = "/tmp/mobula-program-store-XXXXXX";
    directory_ = ::mkdtemp(name);
    store_ = ProgramStore::open(directory_ / "programs").value();
  }
  ~ProgramStoreTest() override {
    store_.reset();
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  // Adds a file as if pulled from another node.
  ProgramFile comes(const fs::path& path) {
    const Hash128 hash = hash_file(path.string()).value();
    const std::string incoming = store_->incoming_path(hash, "test");
    fs::copy_file(path, incoming);
    EXPECT_TRUE(store_->accept(incoming, hash).ok());
    return {path.filename().string(), hash, static_cast<std::int64_t>(fs::file_size(path))};
  }

  fs::path directory_;
  std::unique_ptr<ProgramStore> store_;
};

TEST_F(ProgramStoreTest, LinksLibraryUnderItsSoname) {
  ProgramRecord program;
  program.id = ProgramId::of(1);
  program.files = {comes("/bin/true"), comes(MOBULA_VERSIONED_LIBRARY)};
  ASSERT_EQ(program.files[1].name, "libmobula_versioned_library.so.1.2.3");
  const auto prepared = store_->prepare(program);
  ASSERT_FALSE(prepared.failure) << prepared.failure->text;
  ASSERT_TRUE(prepared.missing.empty());
  ASSERT_NE(store_->find(program.id), nullptr);
  const fs::path layout = fs::path(store_->find(program.id)->path).parent_path();
  EXPECT_TRUE(fs::exists(layout / "libmobula_versioned_library.so.1"));
  EXPECT_TRUE(fs::exists(layout / "libmobula_versioned_library.so.1.2.3"))
      << "for a process that opens it by its full version";
}

}  // namespace
}  // namespace mobula::internal::worker
