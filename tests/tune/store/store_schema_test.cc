#include "tune/store/store_schema.h"

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
        SqliteDatabase::open(place_.file(), SqliteDatabase::Access::read, "read").value();
    return database.number("PRAGMA user_version").value();
  }
};

TEST_F(StoreSchemaTest, RefusesNewerSchema) {
  change_file("PRAGMA user_version=99");
  for (const auto& refused :
       {ExperimentStore::resume(place_, {}).error(), ExperimentReader::open(place_).error()}) {
    EXPECT_EQ(refused.code, ErrorCode::corrupt);
    EXPECT_THAT(refused.text, HasSubstr("schema 99 is newer than schema 1 of this release"));
  }
}

TEST_F(StoreSchemaTest, MigratesOlderFile) {
  constexpr std::array<SchemaMigration, 2> steps{
      SchemaMigration{1, "ALTER TABLE trial ADD COLUMN color TEXT"},
      SchemaMigration{2, "UPDATE trial SET color='red'"}};
  ASSERT_TRUE(migrate_file(place_.file(), "migrate", {3, steps}).ok());
  EXPECT_EQ(version_of_file(), 3);
  auto database = SqliteDatabase::open(place_.file(), SqliteDatabase::Access::read, "read").value();
  EXPECT_EQ(database.number("SELECT count(*) FROM trial WHERE color='red'").value(), 1);
  EXPECT_EQ(database.number("SELECT version FROM experiment").value(), 3);
}

TEST_F(StoreSchemaTest, KeepsFileWhenMigrationFails) {
  constexpr std::array<SchemaMigration, 2> steps{
      SchemaMigration{1, "ALTER TABLE trial ADD COLUMN color TEXT"},
      SchemaMigration{2, "UPDATE nothing SET color='red'"}};
  EXPECT_FALSE(migrate_file(place_.file(), "migrate", {3, steps}).ok());
  EXPECT_EQ(version_of_file(), 1);
  EXPECT_FALSE(std::filesystem::exists(place_.file() + ".migrating"));
  EXPECT_TRUE(resume() != nullptr);
}

TEST_F(StoreSchemaTest, RefusesVersionWithoutMigration) {
  const auto refused = migrate_file(place_.file(), "migrate", {2, {}});
  EXPECT_THAT(refused.error().text, HasSubstr("does not read schema 1"));
}

}  // namespace
}  // namespace mobula::internal::tune
