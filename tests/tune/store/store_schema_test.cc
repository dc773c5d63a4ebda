#include "tune/store/store_schema.h"
#include "tune/core/state_archive.h"

#include <gmock/gmock.h>

#include <array>

#include "store_fixture.h"

namespace mobula::internal::tune {
namespace {

using ::testing::HasSubstr;

class StoreSchemaTest : public StoreTest {
 protected:
  StoreSchemaTest() {
    auto store = create();
    store->write({1, {trial(0)}});
  }
  std::int64_t version_of_file() {
    auto database =
        SqliteDatabase::open(location_.file(), SqliteDatabase::Access::read, "read").value();
    return database.number("PRAGMA user_version").value();
  }
};

TEST_F(StoreSchemaTest, RefusesNewerSchema) {
  change_file("PRAGMA user_version=99");
  for (const auto& refused : {ExperimentStore::resume(location_, {}).error(),
                              ExperimentReader::open(location_).error()}) {
    EXPECT_EQ(refused.code, ErrorCode::corrupt);
    EXPECT_THAT(refused.text, HasSubstr("schema 99 is newer than schema 3 of this release"));
  }
}

TEST_F(StoreSchemaTest, MigratesOlderFile) {
  constexpr std::array<SchemaMigration, 2> steps{
      SchemaMigration{3, "ALTER TABLE trial ADD COLUMN color TEXT"},
      SchemaMigration{4, "UPDATE trial SET color='red'"}};
  ASSERT_TRUE(migrate_file(location_.file(), "migrate", {5, steps}).ok());
  EXPECT_EQ(version_of_file(), 5);
  auto database =
      SqliteDatabase::open(location_.file(), SqliteDatabase::Access::read, "read").value();
  EXPECT_EQ(database.number("SELECT count(*) FROM trial WHERE color='red'").value(), 1);
  EXPECT_EQ(database.number("SELECT version FROM experiment").value(), 5);
}

TEST_F(StoreSchemaTest, MigratesFirstRelease) {
  change_file("DROP TABLE outcome; DROP TABLE decision; PRAGMA user_version=1");
  // A reader does not migrate.
  EXPECT_TRUE(ExperimentReader::open(location_).value().decisions(0).value().empty());
  auto store = resume();
  ASSERT_TRUE(store != nullptr);
  EXPECT_EQ(version_of_file(), 3);
  store->write({1,
                {StoredOutcome{0, save_state(TrialOutcome{.metrics = {{"loss", 0.5}}})},
                 StoredDecision{.note = {.trial = 0, .cutoff = 0.25}}}});
  ASSERT_TRUE(store->flush().ok());
  auto reader = ExperimentReader::open(location_).value();
  int trials = 0;
  const auto done = reader.each_outcome(
      [&](const StoredTrial& /*trial*/, const TrialOutcome& outcome) -> Result<void> {
        trials += outcome.metrics.find("loss") != nullptr ? 1 : 0;
        return {};
      });
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(trials, 1);
  EXPECT_EQ(reader.decisions(0).value().at(0).note.cutoff, 0.25);
}

TEST_F(StoreSchemaTest, KeepsFileWhenMigrationFails) {
  constexpr std::array<SchemaMigration, 2> steps{
      SchemaMigration{3, "ALTER TABLE trial ADD COLUMN color TEXT"},
      SchemaMigration{4, "UPDATE nothing SET color='red'"}};
  EXPECT_FALSE(migrate_file(location_.file(), "migrate", {5, steps}).ok());
  EXPECT_EQ(version_of_file(), 3);
  EXPECT_FALSE(std::filesystem::exists(location_.file() + ".migrating"));
  EXPECT_TRUE(resume() != nullptr);
}

TEST_F(StoreSchemaTest, RefusesVersionWithoutMigration) {
  const auto refused = migrate_file(location_.file(), "migrate", {4, {}});
  EXPECT_THAT(refused.error().text, HasSubstr("does not read schema 3"));
}

}  // namespace
}  // namespace mobula::internal::tune
