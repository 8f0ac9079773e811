// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/suggestion.h"

#include <stdio.h>
#include <string.h>

#define DISTANCE_MAX 2

static unsigned int smaller_of(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/*
 * The edit distance of two words shorter than SUGGESTION_WORD_MAX: how many letters are inserted,
 * deleted or replaced, or swapped with their neighbour, to get from one word to the other.
 */
static unsigned int edit_distance(const char *a, const char *b)
{
	unsigned int cost[SUGGESTION_WORD_MAX][SUGGESTION_WORD_MAX];
	size_t a_len = strlen(a), b_len = strlen(b);

	for (size_t i = 0; i <= a_len; i++) {
		for (size_t k = 0; k <= b_len; k++) {
			if (!i || !k) {
				cost[i][k] = i + k;
				continue;
			}
			cost[i][k] = smaller_of(cost[i - 1][k] + 1, cost[i][k - 1] + 1);
			cost[i][k] = smaller_of(cost[i][k], cost[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				cost[i][k] = smaller_of(cost[i][k], cost[i - 2][k - 2] + 1);
		}
	}
	return cost[a_len][b_len];
}

void suggestion_start(struct suggestion *suggestion, const char *typed, size_t len)
{
	*suggestion = (struct suggestion){};
	if (len < sizeof(suggestion->typed))
		memcpy(suggestion->typed, typed, len);
}

void suggestion_consider(struct suggestion *suggestion, const char *known)
{
	size_t len = strlen(suggestion->typed);
	unsigned int distance;

	if (!len || strlen(known) >= SUGGESTION_WORD_MAX)
		return;
	distance = strncmp(known, suggestion->typed, len) ? edit_distance(suggestion->typed, known) : 0;
	if (distance > DISTANCE_MAX || distance * 2 > len)
		return;
	if (suggestion->closest && distance >= suggestion->distance)
		return;
	suggestion->closest = known;
	suggestion->distance = distance;
}

const char *suggestion_format(char text[SUGGESTION_TEXT_MAX], const struct suggestion *suggestion,
			      const char *dashes)
{
	*text = '\0';
	if (suggestion->closest)
		snprintf(text, SUGGESTION_TEXT_MAX, " (did you mean %s%s?)", dashes, suggestion->closest);
	return text;
}
