// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * crowd [SECONDS] (default 600): 200 sites that allocate and free all the time and hold far more, and far more each time,
 * than the one line that leaks: 40 bytes every 10 ms.
 */
#include <time.h>

#include "workload.h"

#define HELD 32

static void *held[200][HELD];
static void *volatile leaked;

/* Each site has a line of its own, and a size of its own that goes up and down. */
#define BUSY(n) \
	SITE static void busy_##n(unsigned int step) \
	{ \
		void **slot = &held[n][step % HELD]; \
		free(*slot); \
		*slot = malloc(200 + (n * 37 + step * 13) % 3000); \
	}
BUSY(0)
BUSY(1)
BUSY(2)
BUSY(3)
BUSY(4)
BUSY(5)
BUSY(6)
BUSY(7)
BUSY(8)
BUSY(9)
BUSY(10)
BUSY(11)
BUSY(12)
BUSY(13)
BUSY(14)
BUSY(15)
BUSY(16)
BUSY(17)
BUSY(18)
BUSY(19)
BUSY(20)
BUSY(21)
BUSY(22)
BUSY(23)
BUSY(24)
BUSY(25)
BUSY(26)
BUSY(27)
BUSY(28)
BUSY(29)
BUSY(30)
BUSY(31)
BUSY(32)
BUSY(33)
BUSY(34)
BUSY(35)
BUSY(36)
BUSY(37)
BUSY(38)
BUSY(39)
BUSY(40)
BUSY(41)
BUSY(42)
BUSY(43)
BUSY(44)
BUSY(45)
BUSY(46)
BUSY(47)
BUSY(48)
BUSY(49)
BUSY(50)
BUSY(51)
BUSY(52)
BUSY(53)
BUSY(54)
BUSY(55)
BUSY(56)
BUSY(57)
BUSY(58)
BUSY(59)
BUSY(60)
BUSY(61)
BUSY(62)
BUSY(63)
BUSY(64)
BUSY(65)
BUSY(66)
BUSY(67)
BUSY(68)
BUSY(69)
BUSY(70)
BUSY(71)
BUSY(72)
BUSY(73)
BUSY(74)
BUSY(75)
BUSY(76)
BUSY(77)
BUSY(78)
BUSY(79)
BUSY(80)
BUSY(81)
BUSY(82)
BUSY(83)
BUSY(84)
BUSY(85)
BUSY(86)
BUSY(87)
BUSY(88)
BUSY(89)
BUSY(90)
BUSY(91)
BUSY(92)
BUSY(93)
BUSY(94)
BUSY(95)
BUSY(96)
BUSY(97)
BUSY(98)
BUSY(99)
BUSY(100)
BUSY(101)
BUSY(102)
BUSY(103)
BUSY(104)
BUSY(105)
BUSY(106)
BUSY(107)
BUSY(108)
BUSY(109)
BUSY(110)
BUSY(111)
BUSY(112)
BUSY(113)
BUSY(114)
BUSY(115)
BUSY(116)
BUSY(117)
BUSY(118)
BUSY(119)
BUSY(120)
BUSY(121)
BUSY(122)
BUSY(123)
BUSY(124)
BUSY(125)
BUSY(126)
BUSY(127)
BUSY(128)
BUSY(129)
BUSY(130)
BUSY(131)
BUSY(132)
BUSY(133)
BUSY(134)
BUSY(135)
BUSY(136)
BUSY(137)
BUSY(138)
BUSY(139)
BUSY(140)
BUSY(141)
BUSY(142)
BUSY(143)
BUSY(144)
BUSY(145)
BUSY(146)
BUSY(147)
BUSY(148)
BUSY(149)
BUSY(150)
BUSY(151)
BUSY(152)
BUSY(153)
BUSY(154)
BUSY(155)
BUSY(156)
BUSY(157)
BUSY(158)
BUSY(159)
BUSY(160)
BUSY(161)
BUSY(162)
BUSY(163)
BUSY(164)
BUSY(165)
BUSY(166)
BUSY(167)
BUSY(168)
BUSY(169)
BUSY(170)
BUSY(171)
BUSY(172)
BUSY(173)
BUSY(174)
BUSY(175)
BUSY(176)
BUSY(177)
BUSY(178)
BUSY(179)
BUSY(180)
BUSY(181)
BUSY(182)
BUSY(183)
BUSY(184)
BUSY(185)
BUSY(186)
BUSY(187)
BUSY(188)
BUSY(189)
BUSY(190)
BUSY(191)
BUSY(192)
BUSY(193)
BUSY(194)
BUSY(195)
BUSY(196)
BUSY(197)
BUSY(198)
BUSY(199)

SITE static void leak_here(void)
{
	leaked = malloc(40);
}

static void (*const busy[])(unsigned int step) = {
	busy_0, busy_1, busy_2, busy_3, busy_4, busy_5, busy_6, busy_7,
	busy_8, busy_9, busy_10, busy_11, busy_12, busy_13, busy_14, busy_15,
	busy_16, busy_17, busy_18, busy_19, busy_20, busy_21, busy_22, busy_23,
	busy_24, busy_25, busy_26, busy_27, busy_28, busy_29, busy_30, busy_31,
	busy_32, busy_33, busy_34, busy_35, busy_36, busy_37, busy_38, busy_39,
	busy_40, busy_41, busy_42, busy_43, busy_44, busy_45, busy_46, busy_47,
	busy_48, busy_49, busy_50, busy_51, busy_52, busy_53, busy_54, busy_55,
	busy_56, busy_57, busy_58, busy_59, busy_60, busy_61, busy_62, busy_63,
	busy_64, busy_65, busy_66, busy_67, busy_68, busy_69, busy_70, busy_71,
	busy_72, busy_73, busy_74, busy_75, busy_76, busy_77, busy_78, busy_79,
	busy_80, busy_81, busy_82, busy_83, busy_84, busy_85, busy_86, busy_87,
	busy_88, busy_89, busy_90, busy_91, busy_92, busy_93, busy_94, busy_95,
	busy_96, busy_97, busy_98, busy_99, busy_100, busy_101, busy_102, busy_103,
	busy_104, busy_105, busy_106, busy_107, busy_108, busy_109, busy_110, busy_111,
	busy_112, busy_113, busy_114, busy_115, busy_116, busy_117, busy_118, busy_119,
	busy_120, busy_121, busy_122, busy_123, busy_124, busy_125, busy_126, busy_127,
	busy_128, busy_129, busy_130, busy_131, busy_132, busy_133, busy_134, busy_135,
	busy_136, busy_137, busy_138, busy_139, busy_140, busy_141, busy_142, busy_143,
	busy_144, busy_145, busy_146, busy_147, busy_148, busy_149, busy_150, busy_151,
	busy_152, busy_153, busy_154, busy_155, busy_156, busy_157, busy_158, busy_159,
	busy_160, busy_161, busy_162, busy_163, busy_164, busy_165, busy_166, busy_167,
	busy_168, busy_169, busy_170, busy_171, busy_172, busy_173, busy_174, busy_175,
	busy_176, busy_177, busy_178, busy_179, busy_180, busy_181, busy_182, busy_183,
	busy_184, busy_185, busy_186, busy_187, busy_188, busy_189, busy_190, busy_191,
	busy_192, busy_193, busy_194, busy_195, busy_196, busy_197, busy_198, busy_199,
};

int main(int argc, char **argv)
{
	time_t last = time(NULL) + (argc > 1 ? atoi(argv[1]) : 600);

	ready();
	for (unsigned int step = 0; time(NULL) < last; step++) {
		for (unsigned int i = 0; i < sizeof(busy) / sizeof(busy[0]); i++)
			busy[i](step / 4);
		leak_here();
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return 0;
}
