#ifndef OPENSAFE_START_H
#define OPENSAFE_START_H

/* What a guest program defines instead of main; its result is the exit status. argv ends in NULL. */
int guest_main(char **argv, char **environment);

#endif
