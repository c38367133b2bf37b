#ifndef OPENSAFE_TEST_ARCHIVES_H
#define OPENSAFE_TEST_ARCHIVES_H

/* Each returns how many checks failed. */
int test_tar_headers(void);
int test_tar_records(void);
int test_tar_survives_any_bytes(void);
int test_clean_paths(void);
int test_what_is_held(void);

#endif
