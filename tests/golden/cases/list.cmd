mkdir -p data/shop-1/shopd.4711 data/shop-1/g++.4712 data/empty; one=data/shop-1/shopd.4711; two=data/shop-1/g++.4712
cp old.snap $one/20261121T051200.123Z.snap; cp new.snap $one/20261121T051250.123Z.snap; cp damaged.snap $one/20261121T051230.000Z.snap
cp sampled.snap $two/20261120T000000.000Z.snap; cp plain.snap data/plain.snap; cp hostile.snap data/empty/hostile.snap; echo no >data/notes.txt; ln -s ../.. data/shop-1/loop
allocsnap list data; echo $?; allocsnap list $one/ --json; echo $?; allocsnap list new.snap; allocsnap list; echo $?; allocsnap list nowhere; echo $?; allocsnap list data/notes.txt; mkdir none; allocsnap list none; echo $?
