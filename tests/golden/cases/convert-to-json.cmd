allocsnap convert python.snap -o -; allocsnap convert python.snap -o out.json && cat out.json; ls -l out.json | cut -c 1-10
